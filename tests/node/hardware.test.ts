import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hardwareWords } from '../../src/actions/frame/hardware-words.ts'
import { type HardwareOptions, watchHardware } from '../../src/node/hardware/hardware-watch.ts'
import { toolText } from '../../src/node/hardware/tool.ts'
import type { Hardware } from '../../src/protocol/wire/nodes/hardware.ts'
import { type FakeHardware, fakeHardware } from '../support/nodes/fake-hardware.ts'
import { waitUntil } from '../support/run/wait-until.ts'

let computer: FakeHardware
beforeEach(() => {
  computer = fakeHardware()
})
afterEach(() => computer.remove())
const tool = (name: string, script: string) => computer.tool(name, script)
const file = (path: string, text: string) => computer.file(path, text)
/** Beside its files, for what a tool writes. */
const beside = (name: string) => join(computer.place, name)

const isDead = (pid: string) =>
  !existsSync(`/proc/${pid}`) || readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')

async function seen(more: Partial<HardwareOptions> = {}): Promise<Hardware | null> {
  const made = {
    folder: computer.place,
    path: computer.path,
    root: computer.root,
    platform: 'linux',
    everyMs: 600_000,
  } as const
  const watch = watchHardware({ ...made, ...more })
  await watch.look()
  await watch.stop()
  return watch.now()
}

test('§39: GPUs of NVIDIA by their tool; what it cannot tell, and what is impossible, is absent', async () => {
  tool(
    'nvidia-smi',
    `printf '%s' "$*" > ${beside('asked')}
cat <<'END'
NVIDIA GeForce RTX 4090, 24564, 1203, 37, 54, 81.42
NVIDIA GB10, [N/A], [N/A], 0, [Not Supported], [N/A]
Card, with comma, 1024, 99999999999, 101, 9000, -3
garbage
END`,
  )
  expect((await seen())?.gpus).toEqual([
    {
      name: 'NVIDIA GeForce RTX 4090',
      memory_total_mb: 24_564,
      memory_used_mb: 1_203,
      load_percent: 37,
      temperature_c: 54,
      power_watts: 81,
    },
    { name: 'NVIDIA GB10', load_percent: 0 },
    { name: 'Card, with comma', memory_total_mb: 1_024 },
  ])
  expect(readFileSync(beside('asked'), 'utf8')).toContain('--query-gpu=name,memory.total')
})

test('§39: GPUs of AMD, sensors and battery by the files of the kernel', async () => {
  const card = 'sys/class/drm/card1/device'
  file(`${card}/mem_info_vram_total`, '17163091968\n')
  file(`${card}/mem_info_vram_used`, '1073741824\n')
  file(`${card}/gpu_busy_percent`, '12\n')
  file(`${card}/product_name`, 'Radeon RX 7800 XT\n')
  file(`${card}/hwmon/hwmon4/temp1_input`, '48500\n')
  file(`${card}/hwmon/hwmon4/power1_average`, '36000000\n')
  // Another driver's, and a connector.
  file('sys/class/drm/card0/device/vendor', '0x8086\n')
  file('sys/class/drm/card1-DP-1/status', 'connected\n')
  file('proc/meminfo', 'MemTotal:       32768000 kB\nMemFree: 1 kB\nMemAvailable:   16384000 kB\n')
  file('sys/class/thermal/thermal_zone0/temp', '41000\n')
  file('sys/class/thermal/thermal_zone1/temp', '63200\n')
  file('sys/class/power_supply/BAT0/capacity', '87\n')
  file('sys/class/power_supply/BAT0/status', 'Discharging\n')
  file('sys/class/power_supply/AC/online', '0\n')
  const hardware = await seen()
  expect(hardware).toEqual({
    gpus: [
      {
        name: 'Radeon RX 7800 XT',
        memory_total_mb: 16_368,
        memory_used_mb: 1_024,
        load_percent: 12,
        temperature_c: 49,
        power_watts: 36,
      },
    ],
    memory_total_mb: 32_000,
    memory_used_mb: 16_000,
    temperature_c: 63,
    battery_percent: 87,
    on_battery: true,
    disk_free_mb: expect.any(Number),
  })
  expect(hardwareWords(hardware).slice(0, 3)).toEqual([
    ['GPU', 'Radeon RX 7800 XT, 1 GB of 16 GB used, 12 % busy, 49 °C, 36 W'],
    ['Computer', '15.6 GB of 31.3 GB used, 63 °C'],
    ['Battery', '87 %, runs on it'],
  ])
})

test('§39: the processors’ load is that between two looks', async () => {
  file('proc/stat', 'cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\n')
  const watch = watchHardware({
    folder: computer.place,
    path: computer.path,
    root: computer.root,
    platform: 'linux',
    everyMs: 600_000,
  })
  await watch.look()
  expect(watch.now()?.load_percent).toBeUndefined()
  file('proc/stat', 'cpu  150 0 125 820 5 0 0 0 0 0\n')
  await watch.look()
  expect(watch.now()?.load_percent).toBe(75)
  await watch.stop()
})

test('§39: macOS by its own tools', async () => {
  tool(
    'vm_stat',
    'cat <<END\nMach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free: 10.\nPages active:                            65536.\nPages wired down:                        32768.\nPages occupied by compressor:            32768.\nEND',
  )
  tool(
    'pmset',
    `printf "Now drawing from 'Battery Power'\\n -InternalBattery-0 (id=1)\\t64%%; discharging; 5:01 remaining\\n"`,
  )
  tool('system_profiler', `echo '{"SPDisplaysDataType":[{"sppci_model":"Apple M3 Max","_name":"x"}]}'`)
  expect(await seen({ platform: 'darwin' })).toMatchObject({
    gpus: [{ name: 'Apple M3 Max' }],
    memory_used_mb: 2_048,
    battery_percent: 64,
    on_battery: true,
  })
})

test('§39: a tool that hangs is killed at its bound with all that it has started, and the rest is told without it', async () => {
  tool('nvidia-smi', `echo $$ > ${beside('pid')}\nsleep 600 & echo $! >> ${beside('pid')}\nwait`)
  const hardware = await seen({ toolMs: 1_000 })
  expect(hardware?.disk_free_mb).toBeGreaterThanOrEqual(0)
  expect(hardware?.gpus).toBeUndefined()
  const pids = readFileSync(beside('pid'), 'utf8').trim().split('\n')
  expect(pids.length).toBe(2)
  await waitUntil('the end of the tool', () => pids.every(isDead))
})

test('§39: a tool that is not there, fails, or prints without end tells nothing, and a look can be given up', async () => {
  expect(await toolText({ command: ['no-such-tool-anywhere'] })).toBeNull()
  tool('broken', 'echo half; exit 9')
  tool('endless', 'yes')
  tool('silent', 'sleep 600')
  expect(await toolText({ command: ['broken'], path: computer.path })).toBeNull()
  expect(await toolText({ command: ['endless'], path: computer.path })).toBeNull()
  const leaving = new AbortController()
  const asked = toolText({ command: ['silent'], path: computer.path, signal: leaving.signal })
  leaving.abort()
  expect(await asked).toBeNull()
})

test('§39: a tool that ends but leaves something running with its output is ended with that, and asked again the next time', async () => {
  tool('forking', `sleep 600 & echo $! > ${beside('left')}; exit 0`)
  expect(await toolText({ command: ['forking'], path: computer.path, boundMs: 1_000 })).toBeNull()
  const left = readFileSync(beside('left'), 'utf8').trim()
  await waitUntil('the end of what it left', () => isDead(left))
  tool('forking', 'echo fine')
  expect(await toolText({ command: ['forking'], path: computer.path })).toBe('fine\n')
})

test.skipIf(process.platform !== 'linux')('§39: this computer, by its own files', async () => {
  const hardware = await seen({ root: '/', path: '/nowhere' })
  expect(hardware?.memory_total_mb).toBeGreaterThan(100)
  expect(hardware?.memory_used_mb).toBeLessThanOrEqual(hardware?.memory_total_mb ?? 0)
  expect(hardware?.disk_free_mb).toBeGreaterThan(0)
})

test('§39: a computer of which nothing is known has no words', () => {
  expect(hardwareWords(null)).toEqual([])
  expect(hardwareWords({ on_battery: true })).toEqual([['Battery', 'runs on its battery']])
  expect(hardwareWords({ gpus: [{ name: 'A' }, { name: 'B' }] })).toEqual([
    ['GPU 0', 'A'],
    ['GPU 1', 'B'],
  ])
})
