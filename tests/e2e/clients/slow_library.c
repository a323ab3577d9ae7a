/* Opening it takes for ever, with the loader's lock held: as a library on a file system that stalls. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void hang(void) {
    const char* const opened = getenv("E2E_OPENED"); /* a file that says that it came so far */
    if (opened != NULL) {
        close(open(opened, O_CREAT | O_WRONLY, 0600));
    }
    for (;;) {
        pause();
    }
}
