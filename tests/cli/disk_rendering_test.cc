// Tests the rendering of disks: the table, and the JSON, whose fields scripts rely on.
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "cli/disk_info.h"

namespace kvtier::cli {
namespace {

v1::AgentStatusResponse AgentOfTwoDisks() {
  v1::AgentStatusResponse status;
  status.set_node_id("n1");
  v1::DiskReport* well = status.add_disks();
  well->set_id("00112233445566778899aabbccddeeff");
  well->set_directory("/mnt/a");
  well->set_io("io_uring");
  well->set_encrypted(true);
  well->set_serving(true);
  well->set_health("healthy");
  well->set_blocks(1234);
  well->set_capacity_bytes(uint64_t{64} << 30);
  well->set_used_bytes(uint64_t{16} << 30);
  well->set_index_bytes(72000);
  well->set_manifest_bytes(1000);
  well->set_bytes_in(uint64_t{20} << 30);
  well->set_bytes_out(uint64_t{3} << 30);
  well->set_written_bytes(uint64_t{25} << 30);
  well->set_reappended_bytes(uint64_t{5} << 30);
  well->set_write_amplification(1.25);
  well->set_budget_bytes_per_day(uint64_t{64} << 30);
  well->set_budget_left_bytes(uint64_t{2} << 30);
  v1::DiskReport* gone = status.add_disks();
  gone->set_directory("/mnt/b");
  gone->set_health("not open: UNAVAILABLE: cannot open");
  gone->set_quarantines(2);
  gone->set_io_errors(16);
  return status;
}

TEST(DiskInfoTable, HasALineForEachDiskAndOneForItsHealth) {
  EXPECT_EQ(
      DiskInfoTable({{"unix:/a.sock", AgentOfTwoDisks()}, {"h:1", absl::UnavailableError("no")}}),
      R"(AGENT  n1  unix:/a.sock
  DIRECTORY  STATE     I/O       CAPACITY      USED    FULL  BLOCKS    MEMORY  BYTES IN  BYTES OUT   WRITTEN  WRITE AMP  BUDGET LEFT  ERRORS  QUARANTINES
  /mnt/a     serving   io_uring  64.0 GiB  16.0 GiB  25.0 %   1,234  71.3 KiB  20.0 GiB   3.00 GiB  25.0 GiB       1.25     2.00 GiB       0            0
  /mnt/b     not open                 0 B       0 B       -       0       0 B       0 B        0 B       0 B          -            -      16            2
  /mnt/a  00112233445566778899aabbccddeeff  healthy, encrypted
  /mnt/b                                    not open: UNAVAILABLE: cannot open

AGENT  h:1  unreachable (no)
)");
  EXPECT_EQ(DiskInfoTable({{"unix:/a.sock", v1::AgentStatusResponse()}}),
            "AGENT    unix:/a.sock\n  no disk\n");
}

TEST(DiskInfoJson, HasPlainNumbers) {
  v1::AgentStatusResponse status = AgentOfTwoDisks();
  status.mutable_disks()->DeleteSubrange(1, 1);
  EXPECT_EQ(DiskInfoJson({{"unix:/a.sock", status}}), R"json({
  "schema_version": 1,
  "agents": [
    {
      "address": "unix:/a.sock",
      "node_id": "n1",
      "disks": [
        {
          "id": "00112233445566778899aabbccddeeff",
          "directory": "/mnt/a",
          "io": "io_uring",
          "encrypted": true,
          "serving": true,
          "health": "healthy",
          "quarantines": 0,
          "blocks": 1234,
          "capacity_bytes": 68719476736,
          "used_bytes": 17179869184,
          "index_bytes": 72000,
          "manifest_bytes": 1000,
          "bytes_in": 21474836480,
          "bytes_out": 3221225472,
          "io_errors": 0,
          "written_bytes": 26843545600,
          "reappended_bytes": 5368709120,
          "write_amplification": 1.25,
          "budget_bytes_per_day": 68719476736,
          "budget_left_bytes": 2147483648
        }
      ]
    }
  ]
}
)json");
}

}  // namespace
}  // namespace kvtier::cli
