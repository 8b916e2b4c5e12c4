// flashscope: the headless twin of the window. It links no window library; `flashscope` alone starts the other binary.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "viz/cli/command.h"
#include "viz/io/files.h"

namespace {

/// A file opened while standard output is closed would become standard output. A read-only descriptor in its place
/// keeps that from happening, and writing to it still fails.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == -1) return;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that left is an error of the write, exit code 7
  occupy_standard_descriptors();
  flashscope::Context context;
  context.print = [](std::string_view text) { flashscope::write_stdout(text); };
  context.note = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
  context.open_device = flashscope::kernels::open_device;
  return flashscope::run({argv + (argc > 0 ? 1 : 0), argv + argc}, context);
}
