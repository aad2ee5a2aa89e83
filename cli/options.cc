#include "cli/options.h"

namespace kvtier::cli {
namespace {

constexpr Option kOptions[] = {
    {.name = "--agent",
     .value = "ADDRESS",
     .help = "Agent to ask: a path with a '/', unix:PATH or HOST:PORT. Default: the agent of this "
             "node, at "
             "unix:/run/kvtier/kvtier-admin.sock. It may be given several times.",
     .repeatable = true},
    {.name = "--coordinator",
     .value = "ADDRESS",
     .help = "Coordinator to ask, as --agent. Where it is not named, the agent names it."},
    {.name = "--output", .value = "FORMAT", .help = "table (the default) or json. -o is the same."},
    {.name = "--timeout",
     .value = "DURATION",
     .help = "Longest wait for each answer, 1ms to 60s. Default: 2s; 60s where blocks are erased."},
    {.name = "--block-key", .value = "HEX", .help = "Key of a block: 32 hexadecimal digits."},
    {.name = "--tenant", .value = "NAME", .help = "Tenant that owns the blocks."},
    {.name = "--space-digest",
     .value = "HEX",
     .help = "Digest of the block's space: 64 hexadecimal digits, as kvtier doctor shows it."},
    {.name = "--engine-key",
     .value = "HEX",
     .help = "Key by which the engine names the block: 16 to 128 hexadecimal digits."},
    {.name = "--tier", .value = "TIER", .help = "gpu, host or disk."},
    {.name = "--yes", .help = "Confirms that the blocks, or the settings, may be lost."},
    {.name = "--replace",
     .value = "STORE",
     .help = "Id of the store of settings to give up, as kvtier nodes shows it: 16 hexadecimal "
             "digits."},
    {.name = "--pin",
     .value = "N",
     .help = "Number of one pin, as kvtier pins list shows it. Default: all of the tenant's."},
    {.name = "--rate",
     .value = "BYTES",
     .help = "Bytes to read a second from each disk, such as 64MiB. Default: the agent chooses."},
    {.name = "--device",
     .value = "UUID",
     .help = "GPU of a node that has several, as kvtier tiers shows it."},
    {.name = "--socket-dir",
     .value = "DIR",
     .help = "Directory of the agent's sockets. Default: /run/kvtier."},
    {.name = "--disk-dir",
     .value = "DIR",
     .help = "Disk directory to look at. Default: those of the agent. It may be given several "
             "times.",
     .repeatable = true},
    {.name = "--uid",
     .value = "UID",
     .help = "User of the worker. Default: the user who runs kvtier."},
    {.name = "--secret_file",
     .value = "FILE",
     .help = "File or pipe with the secret of a tenant that is to be made: 16 bytes to 64 KiB. A "
             "newline at its end is no part of the secret."},
    {.name = "--host_guaranteed",
     .value = "BYTES",
     .help = "Host memory that the tenant has whenever it wants it, rounded down to whole slabs "
             "(--slab_bytes of the agent); 'default' removes the setting."},
    {.name = "--host_maximum",
     .value = "BYTES",
     .help = "Most host memory that the tenant has, rounded down to whole slabs: one at least, or "
             "0 for nothing; 'default': no maximum."},
    {.name = "--host_weight",
     .value = "N",
     .help = "Part of the host memory that guarantees leave, beside the other tenants' weights: 1 "
             "to 1000; 'default': 1."},
    {.name = "--disk_guaranteed", .value = "BYTES", .help = "As --host_guaranteed, of the disks."},
    {.name = "--disk_maximum", .value = "BYTES", .help = "As --host_maximum, of the disks."},
    {.name = "--disk_weight", .value = "N", .help = "As --host_weight, of the disks."},
    {.name = "--gpu_guaranteed",
     .value = "BYTES",
     .help = "As --host_guaranteed, of the GPU pools."},
    {.name = "--gpu_maximum", .value = "BYTES", .help = "As --host_maximum, of the GPU pools."},
    {.name = "--gpu_weight", .value = "N", .help = "As --host_weight, of the GPU pools."},
    {.name = "--read",
     .value = "TENANTS",
     .help = "Tenants, with commas between them, that may read the blocks of the tenant, which is "
             "a share group then."},
    {.name = "--write", .value = "TENANTS", .help = "The same, and they may also write them."},
    {.name = "--no_member", .value = "TENANTS", .help = "Tenants to remove from the share group."},
    {.name = "--model",
     .value = "NAME",
     .help = "Preset of a well-known model, such as llama-3.1-70b."},
    {.name = "--config", .value = "FILE", .help = "A model's config.json."},
    {.name = "--layers", .value = "N", .help = "Layers of the model that have attention."},
    {.name = "--heads", .value = "N", .help = "Attention heads."},
    {.name = "--kv-heads",
     .value = "N",
     .help = "Heads of keys and values. Default: the named model's, or --heads."},
    {.name = "--head-dim", .value = "N", .help = "Numbers of each head."},
    {.name = "--latent", .value = "N", .help = "Numbers of a layer's latent, instead of heads."},
    {.name = "--window", .value = "TOKENS", .help = "Tokens that a layer with a window looks at."},
    {.name = "--window-layers",
     .value = "N",
     .help = "Layers that have a window. Default: the named model's, or all."},
    {.name = "--dtype", .value = "TYPE", .help = "Type of the numbers, such as float16."},
    {.name = "--parameters", .value = "N", .help = "Parameters of the model, such as 70e9."},
    {.name = "--tokens", .value = "N", .help = "Tokens of a request. Default: 8192."},
    {.name = "--requests", .value = "N", .help = "Requests that are there at a time. Default: 1."},
    {.name = "--gpu", .value = "BYTES", .help = "GPU memory for KV, such as 40GiB."},
    {.name = "--host", .value = "BYTES", .help = "Host memory for KV."},
    {.name = "--disk", .value = "BYTES", .help = "Disk room for KV."},
    {.name = "--prefill-rate",
     .value = "TOKENS",
     .help = "Tokens that the engine computes a second: shows when fetching beats recomputing."},
    {.name = "--flops",
     .value = "N",
     .help = "Operations that the engine computes a second, instead of --prefill-rate."},
};

}  // namespace

std::span<const Option> AllOptions() { return kOptions; }

const Option* FindOption(absl::string_view name) {
  for (const Option& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

}  // namespace kvtier::cli
