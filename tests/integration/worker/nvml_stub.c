/* The part of NVML that Hora reads, for four cards: 0 is well, 1 does not support power and has a process on it, 2 cannot
 * be opened, and 3 is opened and then lost. Built by test_gpus.py and loaded by the real binding in place of the driver's library. */

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

struct memory { unsigned long long total, free, used; };
struct process { unsigned pid; unsigned long long memory; unsigned instances[2]; };
struct utilization { unsigned gpu, memory; };

static int cards[] = {0, 1, 2, 3};

static int card(void *handle) { return *(int *)handle; }

static int copied(const char *text, char *to, unsigned size) {
    unsigned i = 0;
    for (; text[i] && i + 1 < size; i++) to[i] = text[i];
    to[i] = 0;
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = &cards[index];
    return index == 2 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *to, unsigned size) {
    char uuid[] = "GPU-0";
    uuid[4] = (char)('0' + card(handle));
    return copied(uuid, to, size);
}

int nvmlDeviceGetName(void *handle, char *to, unsigned size) {
    return card(handle) == 3 ? GPU_IS_LOST : copied("Stub H200", to, size);
}

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    memory->total = 150ull << 30;
    memory->used = 7ull << 30;
    memory->free = memory->total - memory->used;
    return card(handle) == 3 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
    rates->gpu = 97;
    rates->memory = 40;
    return card(handle) == 3 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    *milliwatts = 412500;
    return card(handle) == 1 ? NOT_SUPPORTED : card(handle) == 3 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) {
    *celsius = sensor == 0 ? 61 : 0;
    return card(handle) == 3 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *mhz) {
    *mhz = type == 1 ? 1980 : 0; /* 1: the SM clock */
    return card(handle) == 3 ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    unsigned index = (unsigned)(uuid[4] - '0');
    return index < 4 ? nvmlDeviceGetHandleByIndex_v2(index, handle) : NOT_FOUND;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes) {
    unsigned room = *count;
    *count = card(handle) == 1;
    if (card(handle) == 3) return GPU_IS_LOST;
    if (room < *count) return INSUFFICIENT_SIZE;
    if (*count) processes[0] = (struct process){.pid = 1};
    return SUCCESS;
}
