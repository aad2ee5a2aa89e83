// LineSource reads the lines of a text file, one at a time, zstd-compressed or not.
#ifndef KVTIER_BENCH_LINE_SOURCE_H_
#define KVTIER_BENCH_LINE_SOURCE_H_

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct ZSTD_DCtx_s;

namespace kvtier::bench {

class LineSource {
 public:
  // Opens a file. Errors: kNotFound, the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<LineSource>> Open(const std::string& path);
  ~LineSource();

  // Returns the next line without its end; nullopt: there is none. Errors: kDataLoss, the
  // compressed bytes are damaged or truncated.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  LineSource(std::string path, std::ifstream file);
  // Appends some text to text_; returns false at the end of the file.
  absl::StatusOr<bool> Fill();

  const std::string path_;
  std::ifstream file_;
  ZSTD_DCtx_s* context_ = nullptr;  // Owned; null: plain text.
  std::vector<char> compressed_;
  bool inside_frame_ = false;
  std::string text_;     // Text read ahead.
  size_t consumed_ = 0;  // Bytes of text_ already returned.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_LINE_SOURCE_H_
