#include "tier_disk/manifest/rocks_manifest.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/kill_point.h"
#include "core/status_macros.h"
#include "tier_disk/cipher/secret_key.h"
#include "tier_disk/io/durable_file.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

// A row is about 130 bytes, so this holds the last 60,000 changes. A larger memtable only makes
// reopening replay a longer log.
constexpr size_t kMemtableBytes = size_t{8} << 20;
constexpr int kMemtables = 2;  // One fills while the other is flushed.
// Rows are read once, at Load(), in order; the cache serves the index blocks of compactions.
constexpr size_t kBlockCacheBytes = size_t{4} << 20;
// Bounds the log that reopening replays, and so the time until the node has recovered.
constexpr uint64_t kMaxLogBytes = uint64_t{32} << 20;
constexpr int kMaxOpenFiles = 64;

rocksdb::Options StoreOptions() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  table.cache_index_and_filter_blocks = true;  // Counted in the cache, not beside it.
  // There is no filter: nothing is ever looked up by key.

  rocksdb::Options options;
  options.create_if_missing = true;
  // Rows are never looked up, only read in order, once, at Load(), so they need no order before a
  // flush. One thread writes.
  options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  options.allow_concurrent_memtable_write = false;
  options.write_buffer_size = kMemtableBytes;
  options.max_write_buffer_number = kMemtables;
  options.max_total_wal_size = kMaxLogBytes;
  options.max_open_files = kMaxOpenFiles;
  options.compression = rocksdb::kNoCompression;  // Keys, digests and sums do not compress.
  // A half-written end of the log, left by a killed process, was never acknowledged.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // Reopening replays the log (bounded above) and does not also wait for its flush.
  options.avoid_flush_during_recovery = true;
  // manual_wal_flush stays off: each write must reach the kernel before Commit() ends.
  options.max_background_jobs = 2;  // One flush, one compaction.
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.keep_log_file_num = 2;
  options.max_log_file_size = size_t{1} << 20;
  options.stats_dump_period_sec = 0;  // No threads for statistics that nobody reads.
  options.stats_persist_period_sec = 0;
  return options;
}

absl::Status StoreError(absl::string_view what, const rocksdb::Status& status) {
  const std::string text = absl::StrCat("manifest: ", what, ": ", status.ToString());
  // A file that the store names and that is missing does not come back by itself.
  if (status.IsCorruption() || status.IsPathNotFound()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

// Returns FileError() of the first file in `directory` that cannot be read to its end.
absl::Status ReadEveryFile(const std::string& directory) {
  std::vector<char> bytes(size_t{1} << 20);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string path = entry.path().string();
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FileError("cannot open", path, errno);
    ssize_t got = 0;
    do {
      got = read(fd, bytes.data(), bytes.size());
    } while (got > 0 || (got < 0 && errno == EINTR));
    const int failure = got < 0 ? errno : 0;
    close(fd);
    if (failure != 0) return FileError("cannot read", path, failure);
  }
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return FileError("cannot list", directory, error.value());
}

// NoLog logs nothing: a process that only reads a store leaves no log in it.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

absl::string_view Text(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

constexpr absl::string_view kLogSuffix = ".log";
constexpr absl::string_view kCurrentName = "CURRENT";

// Returns the number of a write-ahead log; nullopt: the name is not one of a log.
std::optional<uint64_t> LogNumber(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumeSuffix(&name, kLogSuffix) || !absl::SimpleAtoi(name, &number)) {
    return std::nullopt;
  }
  return number;
}

// Returns the names of the logs in a directory.
std::vector<std::string> LogsIn(const std::string& path) {
  std::vector<std::string> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (LogNumber(name).has_value()) logs.push_back(name);
  }
  return logs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RocksManifest>> RocksManifest::Open(Executor* executor,
                                                                   const std::string& path,
                                                                   InPlace in_place) {
  KVT_KILL_POINT("open.before_manifest");
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status;
  // RocksDB makes a log at each opening and never removes the newest. Without it, it would open
  // without all that was committed since the last table.
  if (FileIdOf(absl::StrCat(path, "/", kCurrentName)).ok() && LogsIn(path).empty()) {
    status = rocksdb::Status::Corruption("its log is gone");
  } else {
    status = rocksdb::DB::Open(StoreOptions(), path, &opened);
  }
  KVT_KILL_POINT("open.manifest_opened");
  std::unique_ptr<rocksdb::DB> db(opened);
  // A store with a damaged table opens, but each Load() would fail.
  if (status.ok()) status = db->VerifyChecksum();
  if (status.ok()) {
    KVT_ASSIGN_OR_RETURN(std::unique_ptr<NamedDirectory> directory,
                         NamedDirectory::Open(path, executor));
    std::unique_ptr<RocksManifest> manifest(new RocksManifest(
        executor, path, std::move(db), std::move(directory), std::move(in_place)));
    const absl::Status looked = manifest->LookAtFiles();
    if (!looked.ok()) return absl::UnavailableError(looked.message());
    manifest->LookForRoom().IgnoreError();  // HasRoom() says it.
    return manifest;
  }
  db.reset();
  const absl::Status failed = StoreError(absl::StrCat("cannot open ", path), status);
  // RocksDB also reports corruption when the file system cannot tell a table's size.
  if (absl::IsDataLoss(failed)) KVT_RETURN_IF_ERROR(ReadEveryFile(path));
  return failed;
}

absl::Status RocksManifest::Destroy(const std::string& path) {
  KVT_KILL_POINT("renew.before_destroy");
  const rocksdb::Status destroyed = rocksdb::DestroyDB(path, StoreOptions());
  KVT_KILL_POINT("renew.destroyed");
  if (!destroyed.ok()) return StoreError(absl::StrCat("cannot remove ", path), destroyed);
  return absl::OkStatus();
}

absl::StatusOr<RocksManifest::Offline> RocksManifest::ReadOffline(const std::string& path) {
  rocksdb::Options options = StoreOptions();
  options.create_if_missing = false;
  options.info_log = std::make_shared<NoLog>();
  if (!rocksdb::Env::Default()->FileExists(path + "/CURRENT").ok()) {
    return absl::NotFoundError(absl::StrCat("there is no manifest in ", path));
  }
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path, &opened);
  if (!status.ok()) return StoreError(absl::StrCat("cannot open ", path), status);
  const std::unique_ptr<rocksdb::DB> db(opened);
  Offline found;
  const std::unique_ptr<rocksdb::Iterator> row(db->NewIterator(rocksdb::ReadOptions()));
  for (row->SeekToFirst(); row->Valid(); row->Next()) {
    if (DecodeRow(Text(row->key()), Text(row->value()), &found.image).ok()) continue;
    ++found.image.dropped_corrupt;
    found.damaged_rows.push_back(row->key().ToString());
  }
  if (!row->status().ok()) return StoreError(absl::StrCat("cannot read ", path), row->status());
  return found;
}

absl::Status RocksManifest::EraseOffline(const std::string& path,
                                         const std::vector<std::string>& rows) {
  rocksdb::Options options = StoreOptions();
  options.create_if_missing = false;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
  if (!status.ok()) return StoreError(absl::StrCat("cannot open ", path), status);
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteBatch batch;
  for (const std::string& row : rows) batch.Delete(row);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status written = db->Write(synced, &batch);
  if (!written.ok()) return StoreError("cannot erase rows", written);
  return absl::OkStatus();
}

RocksManifest::RocksManifest(Executor* executor, std::string path, std::unique_ptr<rocksdb::DB> db,
                             std::unique_ptr<NamedDirectory> directory, InPlace in_place)
    : path_(std::move(path)),
      db_(std::move(db)),
      directory_(std::move(directory)),
      in_place_(std::move(in_place)),
      thread_(executor, "manifest", 1) {}

RocksManifest::~RocksManifest() = default;

Task<absl::Status> RocksManifest::Commit(ManifestBatch batch) {
  absl::Status status;
  ByteThreads::Work work = [&] { status = CommitNow(batch); };
  Task<void> committed = thread_.Run(std::move(work));
  co_await committed;
  KVT_KILL_POINT("manifest.back_on_executor");
  co_return status;
}

absl::StatusOr<std::map<std::string, FileId>> RocksManifest::FilesOfStore() const {
  std::vector<std::string> names;
  uint64_t manifest_bytes = 0;
  std::unique_ptr<rocksdb::LogFile> log;
  rocksdb::Status status = db_->GetLiveFiles(names, &manifest_bytes, /*flush_memtable=*/false);
  if (status.ok()) status = db_->GetCurrentWalFile(&log);
  if (!status.ok()) {
    const absl::Status failed = StoreError("cannot find its files", status);
    return absl::IsDataLoss(failed) ? absl::NotFoundError(failed.message()) : failed;
  }
  names.push_back(log->PathName());
  // Logs of memtables that are not flushed yet: those that are there, and those that were.
  uint64_t first_log = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &first_log);
  std::vector<std::string> logs = LogsIn(path_);
  for (const auto& [name, id] : files_) logs.push_back(name);
  for (const std::string& name : logs) {
    const std::optional<uint64_t> number = LogNumber(name);
    if (number.has_value() && *number >= first_log) names.push_back(name);
  }
  std::map<std::string, FileId> files;
  for (absl::string_view name : names) {
    absl::ConsumePrefix(&name, "/");
    if (absl::StartsWith(name, "OPTIONS")) continue;  // No start reads it.
    KVT_ASSIGN_OR_RETURN(files[std::string(name)], FileIdOf(absl::StrCat(path_, "/", name)));
  }
  return files;
}

absl::Status RocksManifest::LookAtFiles() {
  absl::StatusOr<std::map<std::string, FileId>> found = FilesOfStore();
  // A compaction may have removed a file after it was listed. It is not listed a second time.
  if (!found.ok()) found = FilesOfStore();
  if (!found.ok()) return found.status();
  for (const auto& [name, id] : files_) {
    // RocksDB replaces CURRENT itself.
    const auto now = found->find(name);
    if (now == found->end() || name == kCurrentName) continue;
    KVT_RETURN_IF_ERROR(directory_->CheckFile(name, id));
  }
  files_ = *std::move(found);
  return absl::OkStatus();
}

absl::Status RocksManifest::CheckInPlace() {
  absl::Status in_place = in_place_ == nullptr ? absl::OkStatus() : in_place_();
  if (in_place.ok()) in_place = directory_->Check([this] { return LookAtFiles(); });
  if (absl::IsNotFound(in_place)) gone_ = in_place;
  return in_place;
}

absl::Status RocksManifest::CommitNow(const ManifestBatch& batch) {
  KVT_RETURN_IF_ERROR(gone_);
  if (!batch.puts.empty()) KVT_RETURN_IF_ERROR(LookForRoom());
  rocksdb::WriteBatch rows;
  for (const BlockKey& key : batch.erases) rows.Delete(BlockRowKey(key));
  for (const ManifestBatch::Generation& generation : batch.generations) {
    rows.Put(GenerationRowKey(generation.segment), EncodeGeneration(generation));
  }
  for (const DiskEntry& entry : batch.puts) {
    rows.Put(BlockRowKey(entry.block.key), EncodeEntry(entry));
  }
  for (const TenantSalt& salt : batch.salts) {
    std::string value = EncodeTenantSalt(salt);
    rows.Put(TenantSaltRowKey(salt.tenant), value);
    Wipe({reinterpret_cast<uint8_t*>(value.data()), value.size()});
  }
  rocksdb::WriteOptions options;
  // A power cut may lose blocks (misses). It may not lose a generation: if it were drawn a second
  // time, records of its first use would verify. A generation changes once for each segment that is
  // freed, so this sync costs nothing per block. It may not lose a salt either, because all blocks
  // of the tenant would be lost; a salt is drawn once for each tenant.
  options.sync = !batch.generations.empty() || !batch.salts.empty();
  KVT_KILL_POINT("manifest.before_write");
  const rocksdb::Status written =
      rows.Count() == 0 ? rocksdb::Status::OK() : db_->Write(options, &rows);
  KVT_KILL_POINT("manifest.after_write");
  // After the write, because files that are in place now were so when they were written.
  if (written.ok()) return CheckInPlace();
  // Some errors stop RocksDB until Resume(); the next commit finds out whether the cause is gone.
  // Resume() does not help after a lack of space (kManifestReserveBytes).
  db_->Resume().PermitUncheckedError();
  if (const absl::Status in_place = CheckInPlace(); absl::IsNotFound(in_place)) return in_place;
  return absl::UnavailableError(StoreError("cannot commit", written).message());
}

Task<absl::Status> RocksManifest::EraseSalt(std::string tenant) {
  absl::Status status;
  ByteThreads::Work work = [&] { status = EraseSaltNow(tenant); };
  Task<void> erased = thread_.Run(std::move(work));
  co_await erased;
  co_return status;
}

absl::Status RocksManifest::EraseSaltNow(const std::string& tenant) {
  KVT_RETURN_IF_ERROR(gone_);
  const std::string row_key = TenantSaltRowKey(tenant);
  // A deletion only hides the row; the three steps after it remove the files that hold it.
  rocksdb::WriteOptions synced;
  synced.sync = true;
  rocksdb::Status status = db_->Delete(synced, row_key);
  // 1. The memtable with row and deletion becomes a table, and its log becomes obsolete.
  if (status.ok()) status = db_->Flush(rocksdb::FlushOptions());
  // 2. Every table with the row is rewritten without it, including the last level, which a
  //    compaction otherwise skips.
  if (status.ok()) {
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    const rocksdb::Slice row(row_key);
    status = db_->CompactRange(whole, &row, &row);
  }
  // 3. Obsolete files are unlinked in the background at some time; allowing deletions (again)
  //    unlinks them before it returns.
  if (status.ok()) status = db_->DisableFileDeletions();
  if (status.ok()) status = db_->EnableFileDeletions(/*force=*/true);
  if (!status.ok()) {
    return absl::UnavailableError(StoreError("cannot erase a salt", status).message());
  }
  KVT_RETURN_IF_ERROR(SyncDirectory(path_));
  return CheckInPlace();
}

uint64_t RocksManifest::memory_bytes() const {
  uint64_t sum = 0;
  for (const char* property : {"rocksdb.cur-size-all-mem-tables", "rocksdb.block-cache-usage",
                               "rocksdb.estimate-table-readers-mem"}) {
    uint64_t bytes = 0;
    if (db_->GetIntProperty(property, &bytes)) sum += bytes;
  }
  return sum;
}

absl::Status RocksManifest::HasRoom() const {
  return has_room_.load(std::memory_order_relaxed) ? absl::OkStatus() : LookForRoom();
}

absl::Status RocksManifest::CheckRoom(const std::string& path, uint64_t bytes) {
  struct statvfs system = {};
  if (statvfs(path.c_str(), &system) != 0) return absl::OkStatus();
  const uint64_t free_bytes = uint64_t{system.f_bavail} * system.f_frsize;
  if (free_bytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("manifest: the file system of ", path, " has ",
                                                   free_bytes, " bytes free and needs ", bytes,
                                                   "; make room there"));
}

absl::Status RocksManifest::LookForRoom() const {
  const absl::Status room = CheckRoom(path_, kManifestReserveBytes);
  has_room_.store(room.ok(), std::memory_order_relaxed);
  return room;
}

absl::StatusOr<std::optional<std::vector<ManifestBatch::Generation>>> RocksManifest::Generations() {
  ManifestImage image;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions()));
  const std::string first = GenerationRowKey(SegmentId{0});
  size_t damaged = 0;
  for (row->Seek(first); row->Valid() && row->key()[0] == first[0]; row->Next()) {
    damaged += DecodeRow(Text(row->key()), Text(row->value()), &image).ok() ? 0 : 1;
  }
  if (!row->status().ok()) return StoreError("cannot read generations", row->status());
  if (damaged > 0) return std::nullopt;
  return std::optional(std::move(image.generations));
}

Task<absl::StatusOr<ManifestImage>> RocksManifest::Load() {
  absl::StatusOr<ManifestImage> image;
  ByteThreads::Work work = [&] { image = LoadNow(); };
  Task<void> loaded = thread_.Run(std::move(work));
  co_await loaded;
  co_return image;
}

absl::StatusOr<ManifestImage> RocksManifest::LoadNow() {
  KVT_KILL_POINT("open.loading");
  rocksdb::ReadOptions options;
  options.fill_cache = false;  // Read once.
  ManifestImage image;
  rocksdb::WriteBatch damaged;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(options));
  for (row->SeekToFirst(); row->Valid(); row->Next()) {
    KVT_KILL_POINT("open.row_read");
    if (DecodeRow(Text(row->key()), Text(row->value()), &image).ok()) continue;
    ++image.dropped_corrupt;
    damaged.Delete(row->key());
  }
  if (!row->status().ok()) return StoreError("cannot read rows", row->status());
  const rocksdb::Status erased = db_->Write(rocksdb::WriteOptions(), &damaged);
  if (!erased.ok()) return StoreError("cannot erase damaged rows", erased);
  return image;
}

}  // namespace kvtier
