// `kvtier gpu resize`: brings the GPU pool of each asked agent, or of one of its GPUs, to another
// size.
#ifndef KVTIER_CLI_GPU_RESIZE_H_
#define KVTIER_CLI_GPU_RESIZE_H_

#include <string>

#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// REQUIRES: arguments.resize_bytes is not 0.
Outcome RunGpuResize(const Arguments& arguments);

// Returns a remark about a pool beside its size; empty: there is none.
std::string GpuSizeText(const v1::GpuPoolSize& size);
void WriteGpuSize(const v1::GpuPoolSize& size, JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_GPU_RESIZE_H_
