// OpenGL drivers are loaded and unloaded with each off-screen renderer. LeakSanitizer can say nothing about memory of a
// library that is gone, so under AddressSanitizer libraries stay.
#if defined(__SANITIZE_ADDRESS__)
extern "C" int dlclose(void*) { return 0; }
#endif
