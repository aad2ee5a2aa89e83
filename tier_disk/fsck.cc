#include "tier_disk/fsck.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/cipher/tenant_keys.h"
#include "tier_disk/directory/segment_files.h"
#include "tier_disk/directory/superblock_file.h"
#include "tier_disk/io/page_buffer.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"
#include "tier_disk/manifest/recovery.h"
#include "tier_disk/manifest/rocks_manifest.h"

namespace kvtier {
namespace {

absl::Status OpenError(absl::string_view what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

// File closes its descriptor in its destructor.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Reads up to `into.size()` bytes; fewer: the file ends there. Errors: kUnavailable.
absl::StatusOr<size_t> ReadAt(const File& file, uint64_t offset, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = pread(file.descriptor(), into.data() + done, into.size() - done,
                              static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// Takes the lock that a running agent would hold. Does not create or change the LOCK file.
absl::StatusOr<File> LockDirectory(const std::string& directory) {
  const std::string path = directory + "/LOCK";
  File lock(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (lock.descriptor() < 0) {
    return OpenError("this is no disk directory: cannot open", path, errno);
  }
  if (flock(lock.descriptor(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return OpenError("cannot lock", path, errno);
  return absl::FailedPreconditionError(
      absl::StrCat("disk directory ", directory, " is in use by an agent; stop it first"));
}

// DiskCheck checks one directory once.
class DiskCheck {
 public:
  explicit DiskCheck(const FsckOptions& options) : options_(options) {
    layout_.directory = options.directory;
  }
  absl::Status ReadSuperblock();
  absl::Status ListSegments();
  absl::Status CheckSecret();
  absl::Status ReadManifest();
  void ReadRecords();
  absl::Status Repair();
  FsckReport TakeReport() { return std::move(report_); }

 private:
  void Find(std::string finding) {
    if (report_.findings.size() < kMaxFindings) report_.findings.push_back(std::move(finding));
  }
  // Returns the segment's file, open; keeps it open for the next records of the segment.
  const File& Segment(SegmentId segment);
  void ReadRecord(const DiskEntry& entry, std::span<std::byte> buffer);
  absl::Status Verify(const DiskEntry& entry, std::span<std::byte> buffer);
  void AddDamaged(const DiskEntry& entry, absl::string_view why);

  const FsckOptions& options_;
  DiskLayout layout_;
  FsckReport report_;
  std::optional<TenantKeys> keys_;  // Keys of the tenants; null: sealed payloads cannot be opened.
  std::map<uint32_t, std::string> paths_;  // Paths of the segment files that are there.
  std::vector<DiskEntry> live_;            // Live entries by segment and offset.
  std::vector<std::string> rows_to_erase_;
  std::optional<SegmentId> open_segment_;
  File segment_;
};

absl::Status DiskCheck::ReadSuperblock() {
  const std::string path = absl::StrCat(options_.directory, "/", kSuperblockName);
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.descriptor() < 0 && errno == ENOENT) {
    Find(absl::StrCat(path, ": there is none; an agent would begin with an empty disk"));
    return absl::OkStatus();
  }
  if (file.descriptor() < 0) return OpenError("cannot open", path, errno);
  std::array<std::byte, kSuperblockFileBytes> bytes;
  const absl::StatusOr<size_t> got = ReadAt(file, 0, bytes);
  if (!got.ok()) return absl::UnavailableError(absl::StrCat(path, ": ", got.status().message()));
  const absl::StatusOr<DecodedSuperblock> decoded = DecodeSuperblock(std::span(bytes).first(*got));
  if (absl::IsDataLoss(decoded.status())) {
    report_.superblock_state = FsckReport::SuperblockState::kDamaged;
    Find(absl::StrCat(path, ": ", decoded.status().message()));
    return absl::OkStatus();
  }
  if (!decoded.ok()) return decoded.status();
  report_.superblock = decoded->superblock;
  if (!report_.superblock) return absl::OkStatus();
  report_.superblock_state = decoded->copies_differ ? FsckReport::SuperblockState::kOneCopyDamaged
                                                    : FsckReport::SuperblockState::kGood;
  if (decoded->copies_differ) Find(absl::StrCat(path, ": one copy is damaged or older"));
  return absl::OkStatus();
}

absl::Status DiskCheck::CheckSecret() {
  const std::optional<Superblock>& disk = report_.superblock;
  if (!disk || !disk->key_check || options_.secret == nullptr) return absl::OkStatus();
  const absl::StatusOr<Master> master =
      MasterOf(*disk->key_check, *options_.secret, disk->identity);
  if (!master.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("disk ", options_.directory,
                     ": the secret in --disk_secret_dir is wrong: ", master.status().message()));
  }
  OpeningId opening;  // Never used, because nothing is sealed.
  FillRandom(opening.bytes);
  keys_.emplace(options_.secret, disk->identity, opening);
  return absl::OkStatus();
}

absl::Status DiskCheck::ListSegments() {
  std::map<uint32_t, uint64_t> sizes;
  std::error_code error;
  std::filesystem::directory_iterator file(layout_.segments_path(), error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    uint32_t segment = 0;
    const std::filesystem::path path = file->path();
    if (path.extension() != ".seg" || !absl::SimpleAtoi(path.stem().string(), &segment)) continue;
    paths_[segment] = path;
    sizes[segment] = file->file_size(error);
  }
  if (error) return OpenError("cannot list", layout_.segments_path(), error.value());
  if (report_.superblock) {
    report_.segments = report_.superblock->geometry.segment_count;
    report_.segment_bytes = report_.superblock->geometry.segment_bytes;
  } else {
    report_.segments = sizes.empty() ? 0 : std::min(sizes.rbegin()->first + 1, kMaxSegments);
    for (const auto& [segment, bytes] : sizes) {
      report_.segment_bytes = std::max(report_.segment_bytes, bytes);
    }
  }
  for (uint32_t i = 0; i < report_.segments; ++i) {
    const auto found = sizes.find(i);
    if (found == sizes.end()) {
      ++report_.segments_missing;
      Find(absl::StrCat("segment ", i, ": there is no file"));
    } else if (found->second < report_.segment_bytes) {
      ++report_.segments_short;
      Find(absl::StrCat("segment ", i, ": ", found->second, " bytes of ", report_.segment_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status DiskCheck::ReadManifest() {
  KVT_ASSIGN_OR_RETURN(RocksManifest::Offline manifest,
                       RocksManifest::ReadOffline(layout_.manifest_path()));
  const uint64_t generation_rows = manifest.image.generations.size();
  if (!manifest.damaged_rows.empty()) {
    Find(absl::StrCat("manifest: ", manifest.damaged_rows.size(), " damaged rows"));
  }
  const auto first_page = [this](SegmentId segment, std::span<std::byte, kBlockAlignment> page) {
    const absl::StatusOr<size_t> got = ReadAt(Segment(segment), 0, page);
    return got.ok() && *got == page.size();
  };
  const absl::Status rows =
      manifest.damaged_rows.empty()
          ? CheckGenerations(manifest.image.generations, report_.segments, first_page)
          : absl::OkStatus();  // The damaged rows may be the ones that it would miss.
  report_.rows_are_lost = !rows.ok();
  if (!rows.ok()) Find(absl::StrCat(rows.message(), "; an agent would begin with an empty disk"));
  rows_to_erase_ = std::move(manifest.damaged_rows);
  if (keys_) {
    for (const TenantSalt& salt : manifest.image.salts) KVT_RETURN_IF_ERROR(keys_->Add(salt));
  }
  const bool encrypted = report_.superblock && report_.superblock->key_check;
  const auto readable = [&](KeyId key_id) {
    if (keys_) return keys_->Opens(key_id);
    return LiesInTheClear(key_id) != encrypted;
  };
  RecoveredDisk found =
      Recover(std::move(manifest.image), report_.segments, report_.segment_bytes, readable);
  report_.rows_good = generation_rows + found.live.size();
  report_.rows_damaged = found.dropped_corrupt;
  report_.rows_stale = found.dropped_stale;
  report_.rows_misfit = found.dropped_misfit;
  report_.rows_keyless = found.dropped_keyless;
  if (found.dropped_misfit > 0) {
    Find(absl::StrCat("manifest: ", found.dropped_misfit,
                      " rows outside the segments or over another record"));
  }
  live_ = std::move(found.live);
  return absl::OkStatus();
}

const File& DiskCheck::Segment(SegmentId segment) {
  if (open_segment_ == segment) return segment_;
  open_segment_ = segment;
  segment_ = File();
  const auto path = paths_.find(static_cast<uint32_t>(segment));
  if (path == paths_.end()) return segment_;
  // O_DIRECT reads from the device and not from the page cache.
  segment_ = File(open(path->second.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (segment_.descriptor() < 0 && errno == EINVAL) {
    segment_ = File(open(path->second.c_str(), O_RDONLY | O_CLOEXEC));
  }
  return segment_;
}

void DiskCheck::AddDamaged(const DiskEntry& entry, absl::string_view why) {
  ++report_.records_damaged;
  rows_to_erase_.push_back(BlockRowKey(entry.block.key));
  Find(std::string(why));
}

void DiskCheck::ReadRecord(const DiskEntry& entry, std::span<std::byte> buffer) {
  const auto name = [&] {
    return absl::StrCat("record of block ", entry.block.key.ToHex(), " in segment ",
                        static_cast<uint32_t>(entry.place.segment), " at ", entry.place.offset);
  };
  ++report_.records;
  report_.bytes += buffer.size();
  const File& segment = Segment(entry.place.segment);
  const bool is_there = paths_.contains(static_cast<uint32_t>(entry.place.segment));
  if (!is_there) return AddDamaged(entry, absl::StrCat(name(), ": its file is missing"));
  const absl::StatusOr<size_t> got =
      segment.descriptor() < 0 ? absl::UnavailableError("its segment's file cannot be opened")
                               : ReadAt(segment, entry.place.offset, buffer);
  if (!got.ok()) {
    ++report_.records_unreadable;
    return Find(absl::StrCat(name(), ": cannot be read: ", got.status().message()));
  }
  if (*got < buffer.size()) {
    return AddDamaged(entry, absl::StrCat(name(), ": its file ends before it does"));
  }
  const absl::Status verdict = Verify(entry, buffer);
  if (!verdict.ok()) AddDamaged(entry, verdict.message());
}

absl::Status DiskCheck::Verify(const DiskEntry& entry, std::span<std::byte> buffer) {
  const auto page = buffer.first<kRecordHeaderBytes>();
  const std::span<std::byte> payload = buffer.subspan(kRecordHeaderBytes, entry.block.length);
  if (LiesInTheClear(entry.block.key_id)) return VerifyRecord(entry, page, payload).status();
  if (!keys_) {
    ++report_.payloads_unchecked;
    return VerifyHeader(entry, page).status();
  }
  KVT_ASSIGN_OR_RETURN(const RecordCipher cipher, keys_->CipherToOpen(entry.block.key_id));
  return OpenRecord(entry, cipher, page, payload).status();
}

void DiskCheck::ReadRecords() {
  uint64_t total = 0;
  uint64_t largest = 0;
  for (const DiskEntry& entry : live_) {
    total += RecordBytes(entry.block.length);
    largest = std::max(largest, RecordBytes(entry.block.length));
  }
  PageBuffer buffer(std::max<uint64_t>(largest, kBlockAlignment));
  for (const DiskEntry& entry : live_) {
    ReadRecord(entry, buffer.bytes().first(RecordBytes(entry.block.length)));
    if (options_.on_progress) options_.on_progress(report_.bytes, total);
  }
  if (report_.payloads_unchecked == 0) return;
  Find(absl::StrCat("payloads of ", report_.payloads_unchecked,
                    " records are encrypted and were not checked: the secret was not given"));
}

absl::Status DiskCheck::Repair() {
  if (rows_to_erase_.empty()) return absl::OkStatus();
  KVT_RETURN_IF_ERROR(RocksManifest::EraseOffline(layout_.manifest_path(), rows_to_erase_));
  report_.rows_erased = rows_to_erase_.size();
  return absl::OkStatus();
}

}  // namespace

bool FsckReport::clean() const {
  return superblock_state == SuperblockState::kGood && segments_missing == 0 &&
         segments_short == 0 && !rows_are_lost && rows_damaged == 0 && rows_misfit == 0 &&
         records_damaged == 0 && records_unreadable == 0;
}

absl::StatusOr<FsckReport> Fsck(const FsckOptions& options) {
  KVT_ASSIGN_OR_RETURN(const File lock, LockDirectory(options.directory));
  DiskCheck check(options);
  KVT_RETURN_IF_ERROR(check.ReadSuperblock());
  KVT_RETURN_IF_ERROR(check.CheckSecret());
  KVT_RETURN_IF_ERROR(check.ListSegments());
  KVT_RETURN_IF_ERROR(check.ReadManifest());
  check.ReadRecords();
  if (options.repair) KVT_RETURN_IF_ERROR(check.Repair());
  return check.TakeReport();
}

}  // namespace kvtier
