#include "cli/verbs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kvtier::cli {
namespace {

constexpr VerbEntry kVerbs[] = {
    {.words = "status",
     .verb = Verb::kStatus,
     .summary = "shows the health of agents and coordinator",
     .details = "It names what needs an operator, and what to do about it.",
     .options = "--agent --coordinator --timeout",
     .example = "status --agent /run/kvtier/kvtier-admin.sock"},
    {.words = "nodes",
     .verb = Verb::kNodes,
     .summary = "lists the nodes that the coordinator knows",
     .options = "--agent --coordinator --timeout",
     .example = "nodes --coordinator 10.0.0.1:7300"},
    {.words = "tiers",
     .verb = Verb::kTiers,
     .summary = "shows capacity, use, hits, bytes and latencies of each tier",
     .options = "--agent --timeout",
     .example = "tiers -o json"},
    {.words = "tenants",
     .verb = Verb::kTenants,
     .summary = "lists what each tenant has and is guaranteed, as tenants list does",
     .options = "--agent --coordinator --timeout",
     .example = "tenants"},
    {.words = "tenants list",
     .verb = Verb::kTenants,
     .summary = "lists what each tenant has and is guaranteed",
     .details = "With --coordinator it lists the settings that hold on all nodes.",
     .options = "--agent --coordinator --timeout",
     .example = "tenants list"},
    {.words = "tenants describe",
     .verb = Verb::kTenantDescribe,
     .arguments = "NAME",
     .summary = "shows a tenant's shares of each tier, what was set and by whom",
     .options = "--agent --coordinator --timeout",
     .example = "tenants describe acme"},
    {.words = "tenants set",
     .verb = Verb::kTenantSet,
     .arguments = "NAME",
     .summary = "makes a tenant or changes its shares",
     .details =
         "What is not named stays as it is, and the value \"default\" takes a value back. A "
         "tenant is made by --secret_file; settings without it wait until the tenant's secret "
         "is there. --read and --write make it a share group, whose blocks these tenants may "
         "use. With --coordinator the settings hold on all nodes.",
     .options = "--agent --coordinator --timeout --secret_file --host_guaranteed --host_maximum "
                "--host_weight --disk_guaranteed --disk_maximum --disk_weight --gpu_guaranteed "
                "--gpu_maximum --gpu_weight --read --write --no_member",
     .example = "tenants set acme --host_guaranteed 10GiB --host_maximum 40GiB --disk_weight 3"},
    {.words = "tenants drop",
     .verb = Verb::kTenantDrop,
     .arguments = "NAME",
     .summary = "ends a tenant's sessions and erases its blocks, secret and settings",
     .details = "With --coordinator it removes the settings that hold on all nodes, and no tenant.",
     .options = "--agent --coordinator --timeout --yes",
     .example = "tenants drop acme --yes"},
    {.words = "tenants export",
     .verb = Verb::kTenantsExport,
     .summary = "prints the settings that hold on all nodes, for tenants import",
     .details = "Of an agent it prints those that the node follows, also while its coordinator is "
                "away. Write them to a file: kvtier tenants export > tenants.export",
     .options = "--agent --coordinator --timeout",
     .example = "tenants export --coordinator /run/kvtier-coordinator/kvtier-coordinator.sock"},
    {.words = "tenants import",
     .verb = Verb::kTenantsImport,
     .arguments = "FILE",
     .summary = "makes exported settings those of a coordinator, as after a loss of its data",
     .details = "Nodes follow them unless they follow later ones. --yes confirms that settings of "
                "the coordinator are replaced.",
     .options = "--coordinator --timeout --yes",
     .example = "tenants import tenants.export --coordinator "
                "/run/kvtier-coordinator/kvtier-coordinator.sock"},
    {.words = "tenants init",
     .verb = Verb::kTenantsInit,
     .summary = "begins the settings of a new cluster at a coordinator, which has none yet",
     .details = "Say it once for a cluster. Nodes that follow other settings keep them; with "
                "--replace those of one store give theirs up and follow this coordinator.",
     .options = "--coordinator --timeout --replace",
     .example = "tenants init --coordinator /run/kvtier-coordinator/kvtier-coordinator.sock"},
    {.words = "disk info",
     .verb = Verb::kDiskInfo,
     .summary = "shows health, capacity, use, bytes and errors of each disk",
     .options = "--agent --timeout",
     .example = "disk info"},
    {.words = "disk verify",
     .verb = Verb::kDiskVerify,
     .summary = "reads and verifies every record of the agents' disks now",
     .details = "It shows how far each disk is until all are done. A record that is damaged is "
                "dropped and never served.",
     .options = "--agent --timeout --rate",
     .example = "disk verify --rate 64MiB"},
    {.words = "doctor",
     .verb = Verb::kDoctor,
     .summary = "says why workers of this node do not share blocks, and what is wrong here",
     .options = "--socket-dir --disk-dir --uid --timeout",
     .example = "doctor --socket-dir /run/kvtier --uid 1000"},
    {.words = "lookup",
     .verb = Verb::kLookup,
     .summary = "says where a block is",
     .details = "It wants --block-key, or all of --tenant, --space-digest and --engine-key. The "
                "coordinator is asked by the name that an agent of the tenant makes for the block, "
                "so one must answer; of a --block-key it makes it where it has the block.",
     .options = "--agent --coordinator --timeout --block-key --tenant --space-digest --engine-key",
     .example = "lookup --block-key 00112233445566778899aabbccddeeff"},
    {.words = "evict",
     .verb = Verb::kEvict,
     .summary = "drops the blocks of a tier that are not held (pinned, leased or being copied)",
     .options = "--agent --timeout --tier --yes",
     .example = "evict --tier host --yes"},
    {.words = "tenant erase",
     .verb = Verb::kTenantErase,
     .arguments = "NAME",
     .summary = "destroys a tenant's key on the agents' encrypted disks, and drops its blocks",
     .options = "--agent --timeout --yes",
     .example = "tenant erase acme --yes"},
    {.words = "pins list",
     .verb = Verb::kPinsList,
     .summary = "lists the prefixes that tenants keep, for how long, and of what quota",
     .options = "--agent --timeout --tenant",
     .example = "pins list --tenant acme"},
    {.words = "pins drop",
     .verb = Verb::kPinsDrop,
     .summary = "ends a tenant's pins before their time",
     .details =
         "The blocks stay until room is needed. The exit code is 3 if there was no such pin.",
     .options = "--agent --timeout --tenant --pin",
     .example = "pins drop --tenant acme --pin 7"},
    {.words = "prefix drop",
     .verb = Verb::kPrefixDrop,
     .summary = "drops a block and all that descends from it, from all tiers",
     .details =
         "The exit code is 1 if blocks are left, because they are held or time ran out: drop "
         "again. It is 3 if no agent has such blocks.",
     .options = "--agent --timeout --tenant --space-digest --engine-key --yes",
     .example = "prefix drop --tenant acme --space-digest "
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 --engine-key "
                "0102030405060708 --yes"},
    {.words = "gpu resize",
     .verb = Verb::kGpuResize,
     .arguments = "BYTES",
     .summary = "brings the agents' GPU pools to another size",
     .details = "The size is rounded down to whole handles, and is --gpu_max_bytes at most. On a "
                "node with several GPUs --device names one.",
     .options = "--agent --timeout --device",
     .example = "gpu resize 40GiB"},
    {.words = "host resize",
     .verb = Verb::kHostResize,
     .arguments = "BYTES",
     .summary = "brings the agents' host memory to another size while workers run",
     .details = "The size is rounded down to whole slabs, and is --host_max_bytes at most.",
     .options = "--agent --timeout",
     .example = "host resize 40GiB"},
    {.words = "settings",
     .verb = Verb::kSettings,
     .arguments = "[get [NAME] | set NAME=VALUE]",
     .summary = "shows or sets the coordinator's durable settings",
     .options = "--agent --coordinator --timeout",
     .example = "settings set node_timeout_ms=5000"},
    {.words = "size",
     .verb = Verb::kSize,
     .summary = "computes the bytes of KV of a model's tokens and requests, and what tiers hold",
     .details = "The model is a preset (--model), a config.json (--config), or facts: --layers, "
                "--heads, --kv-heads, --head-dim or --latent, --window, --dtype, --parameters. "
                "With --prefill-rate or --flops it shows the bandwidth above which fetching beats "
                "recomputing.",
     .options = "--model --config --layers --heads --kv-heads --head-dim --latent --window "
                "--window-layers --dtype --parameters --tokens --requests --gpu --host --disk "
                "--prefill-rate --flops",
     .example = "size --model llama-3.1-70b --tokens 8192 --requests 8 --host 64GiB"},
    {.words = "version",
     .verb = Verb::kVersion,
     .summary = "prints the version of this program",
     .example = "version"},
    {.words = "help",
     .verb = Verb::kHelp,
     .arguments = "[VERB]",
     .summary = "prints all verbs and options, or those of one verb",
     .example = "help tenants set"},
    {.words = "man",
     .verb = Verb::kMan,
     .arguments = "DIR",
     .summary = "writes the manual pages of kvtier and each of its verbs into a directory",
     .details = "Read one by man -l FILE, or write them to /usr/local/share/man/man1.",
     .example = "man /usr/local/share/man/man1"},
    {.words = "completion",
     .verb = Verb::kCompletion,
     .arguments = "bash",
     .summary = "prints the completion of kvtier for a shell",
     .details = "Load it by: source <(kvtier completion bash)",
     .example = "completion bash"},
};

}  // namespace

std::span<const VerbEntry> AllVerbs() { return kVerbs; }

const VerbEntry* FindVerbEntry(absl::string_view words) {
  for (const VerbEntry& entry : kVerbs) {
    if (entry.words == words) return &entry;
  }
  return nullptr;
}

std::vector<absl::string_view> SecondWordsOf(absl::string_view family) {
  const std::string start = absl::StrCat(family, " ");
  std::vector<absl::string_view> words;
  for (const VerbEntry& entry : kVerbs) {
    absl::string_view second = entry.words;
    if (absl::ConsumePrefix(&second, start)) words.push_back(second);
  }
  return words;
}

std::vector<const Option*> OptionsOf(const VerbEntry& verb) {
  const std::vector<absl::string_view> names = absl::StrSplit(verb.options, ' ', absl::SkipEmpty());
  std::vector<const Option*> options;
  const bool prints_text = verb.verb == Verb::kHelp || verb.verb == Verb::kMan ||
                           verb.verb == Verb::kCompletion || verb.verb == Verb::kTenantsExport;
  for (const Option& option : AllOptions()) {
    bool taken = option.name == "--output" && !prints_text;
    for (const absl::string_view name : names) taken = taken || name == option.name;
    if (taken) options.push_back(&option);
  }
  return options;
}

}  // namespace kvtier::cli
