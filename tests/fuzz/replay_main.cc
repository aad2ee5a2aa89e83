// Runs a fuzz target over a committed corpus if there is no libFuzzer: each argument is a file or a
// directory of files.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Returns whether the file could be read.
bool Replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  // The bytes are on the heap with their exact size, so that a sanitizer sees a read of one byte
  // too many.
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>()};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int replayed = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    if (std::filesystem::is_directory(argv[i], error)) {
      for (std::filesystem::directory_iterator entry(argv[i], error), end; entry != end;
           entry.increment(error)) {
        files.push_back(entry->path());
      }
    } else {
      files.emplace_back(argv[i]);
    }
    for (const std::filesystem::path& file : files) {
      if (error || !Replay(file)) {
        std::fprintf(stderr, "cannot read %s\n", file.c_str());
        return 1;
      }
      ++replayed;
    }
  }
  std::printf("replayed %d inputs\n", replayed);
  return replayed > 0 ? 0 : 1;  // An empty corpus tests nothing.
}
