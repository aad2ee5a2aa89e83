#include "tier_disk/directory/segment_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/kill_point.h"
#include "core/log.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/cipher/tenant_keys.h"
#include "tier_disk/directory/superblock_file.h"
#include "tier_disk/io/durable_file.h"

namespace kvtier {
namespace {

constexpr uint64_t kMinSegmentBytes = uint64_t{1} << 20;
constexpr char kSegmentSuffix[] = ".seg";
constexpr char kLockName[] = "LOCK";

absl::Status Validate(const DiskLayout& layout) {
  if (layout.directory.empty()) {
    return absl::InvalidArgumentError("disk directory is empty; must be named");
  }
  if (layout.segment_count < 2 || layout.segment_count > kMaxSegments) {
    return absl::InvalidArgumentError(absl::StrCat("disk ", layout.directory, ": ",
                                                   layout.segment_count,
                                                   " segments; must have 2 to ", kMaxSegments));
  }
  if (layout.segment_bytes < kMinSegmentBytes || layout.segment_bytes % kBlockAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("disk ", layout.directory, ": segments of ",
                                                   layout.segment_bytes, " bytes; must have ",
                                                   kMinSegmentBytes, " or more, in whole pages"));
  }
  return absl::OkStatus();
}

std::string SegmentName(uint32_t segment) {
  return absl::StrFormat("%08u%s", segment, kSegmentSuffix);
}

std::string SegmentPath(const DiskLayout& layout, uint32_t segment) {
  return absl::StrCat(layout.segments_path(), "/", SegmentName(segment));
}

// Returns FileError(), but kNotFound for what only an operator can mend: a wrong path, or one of
// another user.
absl::Status DirectoryError(absl::string_view what, const std::string& path, int error) {
  const absl::Status status = FileError(what, path, error);
  const bool named_wrongly = error == ENOENT || error == ENOTDIR || error == EACCES ||
                             error == EPERM || error == ELOOP || error == ENAMETOOLONG;
  return named_wrongly ? absl::NotFoundError(status.message()) : status;
}

absl::Status MakeDirectory(const std::string& path) {
  // 0700: only the tenants may see their blocks.
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return DirectoryError("cannot create directory", path, errno);
  }
  return absl::OkStatus();
}

// Gives the file exactly `bytes`, all of them allocated, so that a full disk shows here and not in
// the middle of a put. REQUIRES: it has `bytes_before`.
absl::Status Preallocate(int descriptor, const std::string& path, uint64_t bytes_before,
                         uint64_t bytes) {
  if (bytes_before > bytes && ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    return FileError("cannot truncate", path, errno);
  }
  int result = 0;
  do {
    result = fallocate(descriptor, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return absl::OkStatus();
  if (errno == EOPNOTSUPP) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file system of ", path, " cannot preallocate files; use ext4 or XFS"));
  }
  return FileError(absl::StrCat("cannot preallocate ", bytes, " bytes for"), path, errno);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentFiles>> SegmentFiles::Open(const DiskLayout& layout) {
  KVT_RETURN_IF_ERROR(Validate(layout));
  std::unique_ptr<SegmentFiles> files(new SegmentFiles(layout));
  KVT_RETURN_IF_ERROR(MakeDirectory(layout.directory));
  KVT_KILL_POINT("open.directory_made");
  KVT_RETURN_IF_ERROR(files->Lock());
  KVT_KILL_POINT("open.locked");
  KVT_RETURN_IF_ERROR(files->ReadSuperblock());
  KVT_RETURN_IF_ERROR(MakeDirectory(layout.segments_path()));
  if (!files->superblock_) {
    KVT_RETURN_IF_ERROR(files->Renew());
    return files;
  }
  KVT_RETURN_IF_ERROR(files->RemoveSegmentsFrom(layout.segment_count));
  KVT_RETURN_IF_ERROR(files->OpenSegments());
  // Records the geometry last: after a crash before this, the next Open() resizes again.
  KVT_RETURN_IF_ERROR(files->RecordGeometry());
  KVT_RETURN_IF_ERROR(files->RecordKeyCheck());
  return files;
}

SegmentFiles::~SegmentFiles() {
  CloseSegments();
  if (lock_ >= 0) close(lock_);
}

absl::Status SegmentFiles::Lock() {
  const std::string path = absl::StrCat(layout_.directory, "/", kLockName);
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return DirectoryError("cannot open", path, errno);
  // flock, not fcntl, because flock also distinguishes two opens in one process.
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return FileError("cannot lock", path, errno);
  return absl::FailedPreconditionError(
      absl::StrCat("disk directory ", layout_.directory,
                   " is in use by another agent; stop it or name another directory"));
}

absl::Status SegmentFiles::ReadSuperblock() {
  absl::StatusOr<std::optional<Superblock>> read = SuperblockFile(layout_.directory).Read();
  if (absl::IsDataLoss(read.status())) {
    Log(LogLevel::kError,
        absl::StrCat("disk ", layout_.directory, " starts empty: ", read.status().message()));
    SetLost(std::string(read.status().message()));
    return absl::OkStatus();
  }
  if (!read.ok()) return read.status();
  superblock_ = *std::move(read);
  KVT_RETURN_IF_ERROR(CheckSecret());
  if (outdated_) return absl::OkStatus();
  if (!superblock_ && HasContent()) {
    Log(LogLevel::kWarning,
        absl::StrCat(
            "disk ", layout_.directory,
            " starts empty: it has no superblock, because an agent ended while it made the disk"));
  }
  return absl::OkStatus();
}

absl::Status SegmentFiles::CheckSecret() {
  if (!superblock_) return absl::OkStatus();
  if (!superblock_->key_check && layout_.secret == nullptr) return absl::OkStatus();
  if (!superblock_->key_check) {
    // An operator who asks for encryption wants no payload to stay in the clear. And if the disk
    // accepted records of both kinds, an attacker could replace a sealed record by one in the
    // clear.
    Log(LogLevel::kWarning,
        absl::StrCat("disk ", layout_.directory,
                     " starts empty: its blocks are not encrypted, and a secret is mounted now"));
    outdated_ = std::exchange(superblock_, std::nullopt);
    return absl::OkStatus();
  }
  if (layout_.secret == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "disk ", layout_.directory, ": its blocks are encrypted and no secret is mounted; name ",
        "its directory with --disk_secret_dir, or remove the disk's directory to start empty"));
  }
  const absl::StatusOr<Master> master =
      MasterOf(*superblock_->key_check, *layout_.secret, superblock_->identity);
  if (master.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("disk ", layout_.directory,
                   ": wrong secret in --disk_secret_dir: ", master.status().message()));
}

bool SegmentFiles::HasContent() const {
  std::error_code error;
  if (std::filesystem::exists(layout_.manifest_path(), error)) return true;
  return std::filesystem::directory_iterator(layout_.segments_path(), error) !=
         std::filesystem::directory_iterator();
}

absl::Status SegmentFiles::OpenSegment(uint32_t segment) {
  const std::string path = SegmentPath(layout_, segment);
  const int direct = layout_.buffered ? 0 : O_DIRECT;
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | direct, 0600);
  if (descriptor < 0 && errno == EINVAL) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file system of ", path,
                     " refuses O_DIRECT; use another, or start the agent with --disk_buffered"));
  }
  if (descriptor < 0) return FileError("cannot open", path, errno);
  descriptors_.push_back(descriptor);
  KVT_KILL_POINT("open.segment_created");
  struct stat before = {};
  if (fstat(descriptor, &before) != 0) return FileError("cannot stat", path, errno);
  const auto bytes_before = static_cast<uint64_t>(before.st_size);
  if (bytes_before < layout_.segment_bytes) taken_.emplace_back(segment, bytes_before);
  // Some file systems want room even for what is allocated already.
  const bool is_allocated = static_cast<uint64_t>(before.st_blocks) * 512 >= layout_.segment_bytes;
  if (is_allocated && bytes_before == layout_.segment_bytes) return absl::OkStatus();
  return Preallocate(descriptor, path, bytes_before, layout_.segment_bytes);
}

absl::Status SegmentFiles::OpenSegments() {
  for (uint32_t i = 0; i < layout_.segment_count; ++i) {
    if (const absl::Status opened = OpenSegment(i); !opened.ok()) {
      return absl::IsResourceExhausted(opened) ? NoRoom(opened) : opened;
    }
    KVT_KILL_POINT("open.segment_preallocated");
  }
  // Without this, a power cut could lose a new file's name or bring a removed file back.
  return SyncDirectory(layout_.segments_path());
}

void SegmentFiles::GiveBack() {
  for (const auto& [segment, bytes_before] : taken_) {
    const std::string path = SegmentPath(layout_, segment);
    // A failure leaves the file as it is, which the next start uses.
    static_cast<void>(bytes_before == 0
                          ? unlink(path.c_str())
                          : ftruncate(descriptors_[segment], static_cast<off_t>(bytes_before)));
  }
  taken_.clear();
  CloseSegments();  // The room of a removed file is free once nobody has the file open.
}

absl::Status SegmentFiles::NoteFiles(const Clock* clock) {
  KVT_ASSIGN_OR_RETURN(named_, NamedDirectory::Open(layout_.directory, clock));
  KVT_ASSIGN_OR_RETURN(named_segments_, NamedDirectory::Open(layout_.segments_path(), clock));
  KVT_ASSIGN_OR_RETURN(superblock_id_,
                       FileIdOf(absl::StrCat(layout_.directory, "/", kSuperblockName)));
  return absl::OkStatus();
}

absl::Status SegmentFiles::CheckInPlace() {
  const absl::Status in_place = named_->Check([this]() -> absl::Status {
    KVT_ASSIGN_OR_RETURN(const FileId lock, FileIdOf(lock_));
    KVT_RETURN_IF_ERROR(named_->CheckFile(kLockName, lock));
    return named_->CheckFile(kSuperblockName, superblock_id_);
  });
  KVT_RETURN_IF_ERROR(in_place);
  return named_segments_->Check([this]() -> absl::Status {
    for (uint32_t i = 0; i < layout_.segment_count; ++i) {
      KVT_ASSIGN_OR_RETURN(const FileId segment, FileIdOf(descriptors_[i]));
      KVT_RETURN_IF_ERROR(named_segments_->CheckFile(SegmentName(i), segment));
    }
    return absl::OkStatus();
  });
}

bool SegmentFiles::ReadFirstPage(SegmentId segment,
                                 std::span<std::byte, kBlockAlignment> page) const {
  const int file = descriptors_.at(static_cast<size_t>(segment));
  return pread(file, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
}

absl::Status SegmentFiles::NoRoom(const absl::Status& error) {
  const size_t there = descriptors_.size() - taken_.size();
  GiveBack();
  struct statvfs system = {};
  if (statvfs(layout_.segments_path().c_str(), &system) != 0) return error;
  const uint64_t free_bytes = uint64_t{system.f_bavail} * system.f_frsize;
  return absl::ResourceExhaustedError(absl::StrCat(
      "disk ", layout_.directory, ": ", error.message(), "; asked for ",
      layout_.segment_count * layout_.segment_bytes, " bytes in ", layout_.segment_count,
      " segments, ", there, " of them are there, and its file system has ", free_bytes,
      " free beside them; lower --disk_bytes or make room"));
}

absl::Status SegmentFiles::RecordGeometry() {
  const DiskGeometry configured{.segment_bytes = layout_.segment_bytes,
                                .segment_count = layout_.segment_count};
  const absl::Status as_it_is = CheckGeometry(*superblock_, configured);
  if (as_it_is.ok()) return as_it_is;
  Log(LogLevel::kInfo,
      absl::StrCat("disk ", layout_.directory, " was resized: ", as_it_is.message()));
  Superblock changed = *superblock_;
  changed.geometry = configured;
  ++changed.sequence;
  KVT_RETURN_IF_ERROR(SuperblockFile(layout_.directory).Change(changed));
  superblock_ = changed;
  return absl::OkStatus();
}

absl::Status SegmentFiles::RecordKeyCheck() {
  if (layout_.secret == nullptr) return absl::OkStatus();
  Superblock changed = *superblock_;
  changed.key_check = KeyCheckOf(layout_.secret->current, changed.identity);
  if (changed.key_check == superblock_->key_check) return absl::OkStatus();
  Log(LogLevel::kInfo, absl::StrCat("disk ", layout_.directory,
                                    ": the secret was rotated; new blocks are sealed under it"));
  ++changed.sequence;
  KVT_RETURN_IF_ERROR(SuperblockFile(layout_.directory).Change(changed));
  superblock_ = changed;
  return absl::OkStatus();
}

absl::Status SegmentFiles::BeginIncarnation(absl::Time now) {
  Superblock made{
      .geometry = {.segment_bytes = layout_.segment_bytes, .segment_count = layout_.segment_count},
      .created = absl::FromUnixMicros(absl::ToUnixMicros(now))};
  FillRandom(made.identity.incarnation.bytes);
  SuperblockFile file(layout_.directory);
  const std::optional<Superblock>& before = superblock_ ? superblock_ : outdated_;
  if (before) {
    made.identity.disk = before->identity.disk;
    made.sequence = before->sequence + 1;
    made.compatible = before->compatible;
  } else {
    FillRandom(made.identity.disk.bytes);
  }
  if (layout_.secret != nullptr) {
    made.key_check = KeyCheckOf(layout_.secret->current, made.identity);
  }
  KVT_RETURN_IF_ERROR(before ? file.Change(made) : file.Create(made));
  superblock_ = made;
  outdated_.reset();
  return absl::OkStatus();
}

absl::Status SegmentFiles::RemoveSegmentsFrom(uint32_t first) {
  std::error_code error;
  std::filesystem::directory_iterator file(layout_.segments_path(), error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    const std::filesystem::path path = file->path();
    uint32_t segment = 0;
    const bool ours = path.extension() == kSegmentSuffix &&
                      absl::SimpleAtoi(path.stem().string(), &segment) && segment >= first;
    if (!ours) continue;
    if (unlink(path.c_str()) != 0) return FileError("cannot remove", path, errno);
    KVT_KILL_POINT("renew.segment_unlinked");
  }
  if (error) return FileError("cannot list", layout_.segments_path(), error.value());
  return absl::OkStatus();
}

absl::Status SegmentFiles::Renew() {
  KVT_KILL_POINT("renew.begun");
  CloseSegments();
  KVT_RETURN_IF_ERROR(RemoveSegmentsFrom(0));
  KVT_KILL_POINT("renew.unlinked");
  KVT_RETURN_IF_ERROR(OpenSegments());
  KVT_KILL_POINT("renew.recreated");
  return absl::OkStatus();
}

void SegmentFiles::CloseSegments() {
  for (const int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

}  // namespace kvtier
