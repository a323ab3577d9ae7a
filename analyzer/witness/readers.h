// The readers: each recognises its witness' words and reads them.
#pragma once

#include <vector>

#include "witness.h"

namespace titan::analyzer {

bool is_torchrun_log(const WitnessFile& file);
void read_torchrun_log(const WitnessFile& file, std::vector<Testimony>& into);

bool is_error_file(const WitnessFile& file);
void read_error_file(const WitnessFile& file, std::vector<Testimony>& into);

bool is_slurm_log(const WitnessFile& file);
void read_slurm_log(const WitnessFile& file, std::vector<Testimony>& into);
bool is_sacct(const WitnessFile& file);
void read_sacct(const WitnessFile& file, std::vector<Testimony>& into);

bool is_mpirun_log(const WitnessFile& file);
void read_mpirun_log(const WitnessFile& file, std::vector<Testimony>& into);
bool is_ras_json(const WitnessFile& file);
void read_ras_json(const WitnessFile& file, std::vector<Testimony>& into);
bool is_ras_text(const WitnessFile& file);
void read_ras_text(const WitnessFile& file, std::vector<Testimony>& into);

bool is_nccl_log(const WitnessFile& file);
void read_nccl_log(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torch_debug(const WitnessFile& file);
void read_torch_debug(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torch_watchdog(const WitnessFile& file);
void read_torch_watchdog(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torchcomms_clog(const WitnessFile& file);
void read_torchcomms_clog(const WitnessFile& file, std::vector<Testimony>& into);

}  // namespace titan::analyzer
