// A program that holds a libc of its own must not load the machine's libraries: they bring another one. libdw would
// load libdebuginfod, which fetches debug information from servers.
extern "C" void* __wrap_dlopen(const char* /*path*/, int /*flags*/) { return nullptr; }
