// The visible list of commands.
#include "viz/cli/command.h"

namespace flashscope {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"compare", "predicted beside measured for two settings, and why their bytes differ",
       "Examples:\n"
       "  flashscope compare\n"
       "  flashscope compare three_pass flash_v2 --causal --seqlen 8192\n"
       "  flashscope compare flash_v2 flash_v2:bc=32 --json\n"
       "A setting is ALGORITHM, or ALGORITHM:OPTION=VALUE:… with the problem options' names; the other options hold "
       "for both.",
       declare_compare},
      {"simulate", "one algorithm predicted: traffic, FLOPs, time, timeline",
       "Examples:\n"
       "  flashscope simulate --algorithm flash_v2 --seqlen 1024 --dtype fp16 --json\n"
       "  flashscope simulate --sweep seqlen=512:65536:x2 > sweep.csv\n"
       "  flashscope simulate --seqlen 1024 --trace run.json",
       declare_simulate},
      {"attend", "attention on your own tensors, executed as the schedule says, with its error",
       "Examples:\n"
       "  flashscope attend tensors.json --algorithm flash_v2 --br 1 --bc 2 --steps --json\n"
       "  flashscope attend --q q.npy --k k.npy --v v.npy --causal --dtype bf16 --out results",
       declare_attend},
      {"measure", "run kernels on the GPU here: check, time, hardware byte counters",
       "Examples:\n"
       "  flashscope measure --algorithm flash_v2 --seqlen 4096\n"
       "  flashscope measure --problems problems.json --record my-gpu.json",
       declare_measure},
      {"validate", "predicted against recorded, row by row, with the summary of errors",
       "Examples:\n"
       "  flashscope validate\n"
       "  flashscope validate my-gpu.json --csv > errors.csv\n"
       "  flashscope validate --ncu counters.csv --kernel flash_fwd --algorithm flash_v2_tensor --heads 32 \\\n"
       "      --seqlen 2048 --br 128 --bc 128 --ctas-per-sm 2\n"
       "Errors are summed up three times: over all rows; over the hard ones (HBM reads recorded above 1.05 times the "
       "compulsory ones, or S between a quarter of L2 and four times of it); over those recorded after the model was "
       "frozen. A row is one of these if it keeps the prediction that was made when it was measured (measure --record "
       "writes it) and each quantity is predicted so still, to 0.5 %; any other row counts as recorded before.",
       declare_validate},
      {"calibrate", "microbenchmarks of the GPU here, made into a machine file for --gpu",
       "Examples:\n"
       "  flashscope calibrate\n"
       "  flashscope calibrate --out my-gpu.json && flashscope simulate --gpu ./my-gpu.json",
       declare_calibrate},
      {"lesson", "lessons without a window: list, check, run with answers, export as a page",
       "Examples:\n"
       "  flashscope lesson list\n"
       "  flashscope lesson check --lessons my-course\n"
       "  flashscope lesson run 03-streaming-softmax --answers answers.json\n"
       "  flashscope lesson export 03-streaming-softmax --out lesson.html",
       declare_lesson},
      {"bench", "how fast the simulator itself is, on a fixed list of problems",
       "Example:\n"
       "  flashscope bench --json",
       declare_bench},
      {"doctor", "what works here: GPU, driver, counters, display, and the next step for what does not",
       "Example:\n"
       "  flashscope doctor",
       declare_doctor},
  };
  return list;
}

}  // namespace flashscope
