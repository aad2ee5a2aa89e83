#include "bench/line_source.h"

#include <zstd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
// Files compressed with "long" windows (zstd --long=27) need 128 MiB to be read.
constexpr int kMaxWindowLog = 27;
// First bytes of a zstd frame (RFC 8878, 3.1.1).
constexpr absl::string_view kFrameMagic = "\x28\xb5\x2f\xfd";

}  // namespace

LineSource::LineSource(std::string path, std::ifstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

LineSource::~LineSource() { ZSTD_freeDCtx(context_); }

absl::StatusOr<std::unique_ptr<LineSource>> LineSource::Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(kFrameMagic.size(), '\0');
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  file.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  file.clear();
  file.seekg(0);
  std::unique_ptr<LineSource> source(new LineSource(path, std::move(file)));
  source->compressed_.resize(kReadBytes);
  if (magic == kFrameMagic) {
    source->context_ = ZSTD_createDCtx();
    KVT_CHECK(source->context_ != nullptr);
    const size_t set = ZSTD_DCtx_setParameter(source->context_, ZSTD_d_windowLogMax, kMaxWindowLog);
    KVT_CHECK(!ZSTD_isError(set));
  }
  return source;
}

absl::StatusOr<bool> LineSource::Fill() {
  file_.read(compressed_.data(), static_cast<std::streamsize>(compressed_.size()));
  ZSTD_inBuffer in{compressed_.data(), static_cast<size_t>(file_.gcount()), 0};
  if (in.size == 0) {
    if (!inside_frame_) return false;
    return absl::DataLossError(absl::StrCat(path_, " ends inside a zstd frame"));
  }
  if (context_ == nullptr) {
    text_.append(compressed_.data(), in.size);
    return true;
  }
  std::vector<char> plain(ZSTD_DStreamOutSize());
  bool may_hold_more = true;
  while (in.pos < in.size || may_hold_more) {
    ZSTD_outBuffer out{plain.data(), plain.size(), 0};
    const size_t left = ZSTD_decompressStream(context_, &out, &in);
    if (ZSTD_isError(left)) {
      return absl::DataLossError(absl::StrCat(path_, ": ", ZSTD_getErrorName(left)));
    }
    inside_frame_ = left != 0;
    may_hold_more = out.pos == out.size;
    text_.append(plain.data(), out.pos);
  }
  return true;
}

absl::StatusOr<std::optional<std::string>> LineSource::Next() {
  size_t searched = consumed_;
  while (true) {
    const size_t end = text_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = text_.substr(consumed_, end - consumed_);
      consumed_ = end + 1;
      return line;
    }
    text_.erase(0, consumed_);
    consumed_ = 0;
    searched = text_.size();
    KVT_ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    if (text_.empty()) return std::nullopt;
    return std::exchange(text_, {});  // The last line may have no end.
  }
}

}  // namespace kvtier::bench
