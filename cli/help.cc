#include "cli/help.h"

namespace kvtier::cli {

std::string HelpText() {
  return R"(kvtier: looks into kvtier agents and their coordinator.

  kvtier status                      health of agents and coordinator
  kvtier nodes                       the nodes that the coordinator knows
  kvtier tiers                       capacity, use, hits, bytes and latencies of each tier
  kvtier tenants [list]              what each tenant has, and what it is guaranteed
  kvtier tenants describe NAME       a tenant's shares of each tier, what was said of it and by whom
  kvtier tenants set NAME            makes a tenant or changes it: --secret_file FILE of a new one,
                                     --host_guaranteed and --host_maximum BYTES, --host_weight N,
                                     and the same of disk and gpu; what is not named stays, and
                                     "default" takes a value back; --read and --write TENANTS, with
                                     commas between them, make it a share group, whose blocks these
                                     may use, and --no_member TENANTS ends that
  kvtier tenants drop NAME --yes     ends a tenant's sessions, and erases its blocks, secret and
                                     settings; with --coordinator the cluster's settings alone
  kvtier disk info                   each disk: health, capacity, use, bytes, errors
  kvtier disk verify [--rate BYTES]  reads and verifies every record of the agents' disks now;
                                     --rate is a second and disk (64MiB; the agent chooses)
  kvtier doctor                      why workers of this node do not share, and what is wrong with
                                     the machine; [--socket-dir DIR] of the agent (/run/kvtier),
                                     [--uid UID] of the worker, [--disk-dir DIR] more than once
  kvtier lookup --block-key HEX      where a block is
  kvtier lookup --tenant T --space-digest HEX --engine-key HEX
  kvtier evict --tier host --yes     drops a tier's blocks that nobody holds
  kvtier tenant erase NAME --yes     destroys a tenant's key on the agents' encrypted disks,
                                     and drops its blocks
  kvtier pins list [--tenant T]      the prefixes that tenants keep, for how long, of what quota
  kvtier pins drop --tenant T        ends a tenant's pins before their time, or [--pin N] of them
  kvtier prefix drop --tenant T --space-digest HEX --engine-key HEX --yes
                                     drops a block and all that descends from it, from all tiers
  kvtier gpu resize BYTES            brings the agents' GPU pools to that size (40GiB), in whole
                                     handles and up to --gpu_max_bytes; on a node with several
                                     GPUs --device UUID names one, as kvtier tiers shows it
  kvtier settings [get [NAME]]       the coordinator's durable settings
  kvtier settings set NAME=VALUE
  kvtier size --model NAME           bytes of KV of a model's tokens and requests, and what the
  kvtier size --config FILE          tiers hold; of a preset, of a config.json, or of facts:
                                     --layers, --heads, --kv-heads, --head-dim or --latent,
                                     --window and --window-layers, --dtype, --parameters;
                                     --tokens of a request (8192), --requests, bytes of --gpu,
                                     --host and --disk; --prefill-rate TOKENS or --flops a second
                                     of the engine: from when on fetching beats recomputing
  kvtier version

Options
  --agent ADDRESS        a path, unix:PATH or HOST:PORT; may be repeated
                         (unix:/run/kvtier/kvtier-admin.sock when nothing is named)
  --coordinator ADDRESS  nodes and settings ask the agent for it when it is not named; tenants with
                         it are those of the cluster's settings, which all nodes learn
                         HOST:PORT answers status, tiers, disk info, nodes and settings get;
                         all else is asked on the program's own machine, as root or as its user,
                         at kvtier-admin.sock or kvtier-coordinator.sock in its --socket_dir
  -o, --output FORMAT    table or json
  --timeout DURATION     of each question: 1ms to 60s (2s; tenant erase, tenants drop, prefix drop 60s)

Exit codes: 0 done, 1 failed or only partly answered, 2 unreachable, 3 not found, 4 damage found,
5 not answered at that address, which names the one that does, 64 wrong usage.
)";
}

}  // namespace kvtier::cli
