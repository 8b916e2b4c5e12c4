#include "viz/io/files.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <new>

#include "sim/error.h"

namespace flashscope {
namespace {

std::string reason(int error) { return std::strerror(error); }

/// Writing to a closed pipe raises SIGPIPE, which would end the process before the error can be told. Held back for this
/// thread while writing; the signal that our own write raised is taken away again.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&m_pipe);
    sigaddset(&m_pipe, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    m_was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &m_pipe, &m_old);
  }
  ~PipeSignalHeld() {
    if (!m_was_pending) {
      const timespec now = {0, 0};
      while (sigtimedwait(&m_pipe, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &m_old, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t m_pipe, m_old;
  bool m_was_pending = false;
};

/// Writes everything; returns 0 or the error number.
int write_all(int descriptor, std::string_view bytes) {
  const PipeSignalHeld held;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // a descriptor that does not block: wait for room
      pollfd wait = {descriptor, POLLOUT, 0};
      if (::poll(&wait, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// What a rename replaces: the file behind symbolic links, or the path itself where there is none yet.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string target = real;
  std::free(real);
  return target;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string read_binary_file(const std::string& path, std::int64_t most) {
  const auto fail = [&](int error) { throw Error(ErrorKind::input, path + ": cannot read: " + reason(error)); };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(errno);
  const auto refuse_size = [&] {
    ::close(descriptor);
    throw Error(ErrorKind::input, path + ": more than " + std::to_string(most) +
                                      " bytes, the most that is read here; is this the file you mean?");
  };
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > most) refuse_size();
  std::string bytes;
  int error = 0;
  try {
    char buffer[1 << 16];
    for (;;) {
      const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
      if (count == 0) break;
      if (count > 0) {
        bytes.append(buffer, static_cast<std::size_t>(count));
        if (static_cast<std::int64_t>(bytes.size()) > most) refuse_size();
      } else if (errno != EINTR) {
        error = errno;
        break;
      }
    }
  } catch (const std::bad_alloc&) {
    ::close(descriptor);
    throw Error(ErrorKind::resource, path + ": not enough memory after " + std::to_string(bytes.size()) + " bytes");
  }
  ::close(descriptor);
  if (error != 0) fail(error);
  return bytes;
}

std::string read_text_file(const std::string& path) {
  return text_from_bytes(read_binary_file(path, kMostTextBytes), path);
}

std::string text_from_bytes(std::string bytes, const std::string& file) {
  const auto starts_with = [&](std::string_view prefix) { return bytes.compare(0, prefix.size(), prefix) == 0; };
  const auto refuse = [&](const char* encoding) {
    throw Error(ErrorKind::input, file + ": the encoding is " + encoding + "; save the file as UTF-8");
  };
  using namespace std::string_view_literals;
  // UTF-32's mark begins with UTF-16's.
  if (starts_with("\xFF\xFE\0\0"sv) || starts_with("\0\0\xFE\xFF"sv)) refuse("UTF-32");
  if (starts_with("\xFF\xFE"sv)) refuse("UTF-16 (little-endian)");
  if (starts_with("\xFE\xFF"sv)) refuse("UTF-16 (big-endian)");
  if (bytes.find('\0') != std::string::npos) refuse("not text, or UTF-16 without a byte order mark (it has zero bytes)");
  const std::size_t begin = starts_with("\xEF\xBB\xBF"sv) ? 3 : 0;
  std::size_t end = 0;
  for (std::size_t i = begin; i < bytes.size(); ++i)
    if (!(bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n')) bytes[end++] = bytes[i];
  bytes.resize(end);
  return bytes;
}

OutputFile::OutputFile(std::string path) : m_path(std::move(path)), m_target(resolved(m_path)) {
  struct stat status = {};
  const bool exists = ::stat(m_path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(reason(EISDIR));
  // Devices and pipes cannot be replaced. /dev/stdout may name a regular file that others write to as well.
  if ((exists && !S_ISREG(status.st_mode)) || m_path.compare(0, 5, "/dev/") == 0) {
    m_descriptor = ::open(m_path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (m_descriptor < 0) fail(reason(errno));
    return;
  }
  // A rename would replace a write-protected file without asking.
  if (exists && ::access(m_target.c_str(), W_OK) != 0) fail(reason(errno));
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100 && m_descriptor < 0; ++attempt) {
    m_temporary = m_target + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    m_descriptor = ::open(m_temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (m_descriptor < 0 && errno != EEXIST) break;
  }
  if (m_descriptor < 0) {
    const int error = errno;
    m_temporary.clear();
    fail(reason(error));
  }
  // Best effort: a new file in its place keeps the permissions of the old one.
  if (exists && ::fchmod(m_descriptor, status.st_mode & 07777) != 0) errno = 0;
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::write(std::string_view bytes) {
  if (m_descriptor < 0) throw Error(ErrorKind::internal, m_path + ": written to after commit or failure");
  if (const int error = write_all(m_descriptor, bytes)) fail(reason(error));
}

void OutputFile::commit() {
  if (m_descriptor < 0) throw Error(ErrorKind::internal, m_path + ": committed twice or after failure");
  // Pipes and most devices cannot be synced and say EINVAL.
  if (::fsync(m_descriptor) != 0 && !(m_temporary.empty() && (errno == EINVAL || errno == EROFS))) fail(reason(errno));
  const int descriptor = m_descriptor;
  m_descriptor = -1;
  if (::close(descriptor) != 0) fail(reason(errno));
  if (m_temporary.empty()) return;
  if (std::rename(m_temporary.c_str(), m_target.c_str()) != 0) fail(reason(errno));
  m_temporary.clear();
  // The name itself survives a power cut only when the folder is synced; where that is not possible the file still stands.
  const int folder = ::open(folder_of(m_target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void OutputFile::fail(const std::string& what) {
  discard();
  throw Error(ErrorKind::io, m_path + ": cannot write: " + what);
}

void OutputFile::discard() {
  if (m_descriptor >= 0) ::close(m_descriptor);
  m_descriptor = -1;
  if (!m_temporary.empty()) ::unlink(m_temporary.c_str());
  m_temporary.clear();
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

void write_stdout(std::string_view bytes) {
  // What printf and cout still hold comes first.
  const PipeSignalHeld held;
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0)
    throw Error(ErrorKind::io, "standard output: cannot write: " + reason(errno));
  if (const int error = write_all(STDOUT_FILENO, bytes))
    throw Error(ErrorKind::io, "standard output: cannot write: " + reason(error));
}

}  // namespace flashscope
