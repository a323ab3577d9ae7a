/* Loaded into Python by python_spans_program.py, to count what Python runs. */

static volatile long calls;

/* The name that callgrind's --toggle-collect is given. */
__attribute__((noinline)) void measured(void (*work)(void)) {
    work();
    ++calls;
}

/* Callgrind sees no call that libffi makes. */
void call_back(void (*work)(void)) {
    measured(work);
    ++calls;
}
