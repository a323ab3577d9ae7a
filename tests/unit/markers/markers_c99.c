/* titantrace.h from C99, linked with nothing: no-ops without the tracer, recorded with it. Prints what titan_dump says.
 */
#include "titantrace.h"

#include <stdio.h>

int main(void) {
    titan_step(1);
    titan_span_begin("outer");
    titan_span_begin(NULL);
    titan_span_end();
    titan_span_end();
    titan_span_end();
    titan_event("event");
    titan_metric("loss", 0.5);
    titan_label("dp", "0");
    titan_comm_name(NULL, "nobody");
    titan_call calls[4];
    const size_t found = titan_record(calls, 4, sizeof(calls[0])); /* it has called no NCCL */
    printf("%d\n", titan_dump("from C99"));
    return (int)found;
}
