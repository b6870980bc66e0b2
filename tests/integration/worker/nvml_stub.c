/* A stub of the part of NVML that Hora reads. The real binding loads it in place of the driver's library. `NVML_STUB`
 * holds a letter for each card. Every call reads it again, so a card may change while it is open:
 *
 *     w  well                    u  supports nothing but its name      m  well, in MIG mode
 *     p  a process is on it      l  lost                               x  cannot be opened
 *     g  gives garbage           z  has no UUID                        a  well, of another model with less memory
 *     e  has ECC errors          r  has rows to replace                f  has rows that cannot be replaced
 *
 * `NVML_STUB_XIDS` holds the XID errors since the start, such as "0:79 1:13": card 0 had 79, then card 1 had 13. Each is
 * reported once. `NVML_STUB_FILE` may name a file with the letters in its first line and the XID errors in its second
 * one, so that cards can change while another process has them open. `NVML_STUB_DRIVER` is the driver's version.
 *
 *     cc -shared -fPIC -o FOLDER/libnvidia-ml.so.1 tests/integration/worker/nvml_stub.c
 *     echo ww > FOLDER/cards; LD_LIBRARY_PATH=FOLDER NVML_STUB_FILE=FOLDER/cards hora up -d; echo wp > FOLDER/cards
 *
 * NVLinks 0 and 1 of cards 0 and 1 lead to each other, links 0 to 3 of all others to a switch. Built with -DOLD it stands
 * for the library of an old driver, which lacks several functions. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { MOST = 64, LINE = 4096, XID_EVENT = 8 };

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct utilization { unsigned gpu, memory; };
struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

static int cards[MOST];

/* A line of the file `NVML_STUB_FILE`; without one, a variable. */
static const char *setting(const char *variable, int line, const char *otherwise) {
    static __thread char lines[2][LINE];
    const char *name = getenv("NVML_STUB_FILE"), *set = getenv(variable);
    FILE *file = name ? fopen(name, "r") : NULL;
    if (!file) return set ? set : otherwise;
    lines[0][0] = lines[1][0] = 0;
    if (fgets(lines[0], LINE, file)) lines[0][strcspn(lines[0], "\n")] = 0;
    if (lines[0][0] && !fgets(lines[1], LINE, file)) lines[1][0] = 0;
    fclose(file);
    return lines[line];
}

static const char *letters(void) { return setting("NVML_STUB", 0, "w"); }
static int count(void) { return (int)strlen(letters()); }
static int card(void *handle) { return (int)((int *)handle - cards); }
static char letter(void *handle) { return card(handle) < count() ? letters()[card(handle)] : 'l'; }

/* The answer of a call that only cards with a letter in `without` do not support. */
static int answer(void *handle, const char *without) {
    char is = letter(handle);
    return is == 'l' ? GPU_IS_LOST : is == 'u' || strchr(without, is) ? NOT_SUPPORTED : SUCCESS;
}

static int copied(const char *text, char *to, unsigned size) {
    strncpy(to, text, size - 1);
    to[size - 1] = 0;
    return SUCCESS;
}

static void two_digits(char *to, int number) { to[0] = (char)('0' + number / 10); to[1] = (char)('0' + number % 10); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }

int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    const char *set = getenv("NVML_STUB_DRIVER");
    return copied(set ? set : "550.54.15", to, size);
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    *number = getenv("NVML_STUB_COUNT") ? 0xFFFFFFFF : (unsigned)count();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = &cards[index];
    return strchr("lx", letter(*handle)) ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    int index = (uuid[4] - '0') * 10 + uuid[5] - '0';
    return index >= 0 && index < count() ? nvmlDeviceGetHandleByIndex_v2((unsigned)index, handle) : NOT_FOUND;
}

int nvmlDeviceGetUUID(void *handle, char *to, unsigned size) {
    char uuid[] = "GPU-00";
    two_digits(uuid + 4, card(handle));
    return copied(letter(handle) == 'z' ? "" : uuid, to, size);
}

int nvmlDeviceGetName(void *handle, char *to, unsigned size) {
    char is = letter(handle);
    return copied(is == 'g' ? "\xff\xfe bad" : is == 'a' ? "Stub A100 40 GB" : "Stub H200", to, size);
}

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    memory->total = (letter(handle) == 'a' ? 40ull : 150ull) << 30;
    memory->used = letter(handle) == 'g' ? ~0ull : 15ull << 29; /* with what the driver keeps for itself */
    memory->free = memory->total - memory->used;
    return answer(handle, "");
}

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
    rates->gpu = letter(handle) == 'g' ? 4000000000u : 97;
    rates->memory = 40;
    return answer(handle, "m");
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    *milliwatts = letter(handle) == 'g' ? ~0u : 412500;
    return answer(handle, "");
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) {
    *celsius = letter(handle) == 'g' ? 4294967200u : sensor == 0 ? 61 : 0;
    return answer(handle, "");
}

int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *mhz) {
    *mhz = letter(handle) == 'g' ? ~0u : type == 1 ? 1980 : 0; /* 1: the SM clock */
    return answer(handle, "");
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    *reasons = 8; /* hardware slowdown */
    return answer(handle, "");
}

static int processes(void *handle, unsigned *number) {
    *number = letter(handle) == 'g' ? ~0u : letter(handle) == 'p';
    int code = answer(handle, "");
    return code ? code : *number ? INSUFFICIENT_SIZE : SUCCESS;
}

#ifdef OLD
int nvmlDeviceGetComputeRunningProcesses(void *handle, unsigned *number, void *to) { (void)to; return processes(handle, number); }
#else
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    struct memory whole;
    int code = nvmlDeviceGetMemoryInfo(handle, &whole);
    if (memory->version != (2 << 24 | sizeof *memory)) return INVALID_ARGUMENT;
    memory->total = whole.total;
    memory->reserved = 1ull << 29;
    memory->free = whole.free;
    memory->used = letter(handle) == 'g' ? ~0ull : whole.used - memory->reserved;
    return code;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *number, void *to) { (void)to; return processes(handle, number); }

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *reasons) {
    *reasons = letter(handle) == 'g' ? ~0ull : 4; /* the power cap */
    return answer(handle, "");
}

int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *errors) {
    *errors = letter(handle) == 'e' && type == 1 && counter == 0 ? 3 : 0; /* uncorrected, since the driver's start */
    return answer(handle, "a");
}

int nvmlDeviceGetRemappedRows(void *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 0;
    *pending = letter(handle) == 'r';
    *failed = letter(handle) == 'f';
    return answer(handle, "a");
}

static unsigned reported_xids;

int nvmlEventSetCreate(void **set) { reported_xids = 0; *set = cards; return SUCCESS; }

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    (void)types, (void)set;
    return answer(handle, "");
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    const char *xid = setting("NVML_STUB_XIDS", 1, "");
    int index, number, used;
    (void)set, (void)timeout_ms;
    for (unsigned at = 0; sscanf(xid, "%d:%d%n", &index, &number, &used) == 2; xid += used)
        if (at++ == reported_xids) {
            *event = (struct event){&cards[index], XID_EVENT, (unsigned long long)number, ~0u, ~0u};
            reported_xids++;
            return SUCCESS;
        }
    return TIMEOUT;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return SUCCESS; }

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    *current = *pending = letter(handle) == 'g' ? 77 : letter(handle) == 'm';
    return answer(handle, "");
}

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    strcpy(pci->bus_id, "00000000:00:00.0");
    two_digits(pci->bus_id + 9, card(handle));
    return answer(handle, "");
}

int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, unsigned *level) {
    *level = card(one) / 8 == card(other) / 8 ? 20 : 50; /* several switches; across the sockets */
    return answer(one, "") ? answer(one, "") : answer(other, "g");
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    *active = link < (card(handle) < 2 ? 2 : 4);
    if (link >= 18) return INVALID_ARGUMENT;
    return answer(handle, "");
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, struct pci *pci) {
    if (card(handle) < 2) return nvmlDeviceGetPciInfo_v3(&cards[1 - card(handle)], pci);
    memset(pci, 0, sizeof *pci);
    strcpy(pci->bus_id, "00000000:AA:00.0");
    return link < 18 ? answer(handle, "") : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, unsigned *type) {
    *type = card(handle) < 2 ? 0 : 2; /* a GPU; a switch */
    return link < 18 ? answer(handle, "") : INVALID_ARGUMENT;
}

int nvmlDeviceGetCpuAffinity(void *handle, unsigned size, unsigned long *set) {
    memset(set, 0, size * sizeof *set);
    set[card(handle) / 8] = 0xFFFFul;
    return answer(handle, "");
}

int nvmlDeviceGetMemoryAffinity(void *handle, unsigned size, unsigned long *set, unsigned scope) {
    (void)scope;
    memset(set, 0, size * sizeof *set);
    set[0] = 1ul << (card(handle) / 8);
    return answer(handle, "");
}
#endif
