import { join } from 'node:path'
import { fileText, namesIn } from './amd.ts'
import { type Found, numberIn } from './numbers.ts'

const kibOfMb = 1_024
const milli = 1_000

function memoryIn(text: string | null): Found {
  const kib = (name: string) => numberIn(new RegExp(`^${name}: *(\\d+) kB$`, 'm').exec(text ?? '')?.[1], kibOfMb)
  const [total, available] = [kib('MemTotal'), kib('MemAvailable')]
  return {
    memory_total_mb: total,
    ...(total === undefined || available === undefined ? {} : { memory_used_mb: Math.max(0, total - available) }),
  }
}

/** Ticks of all processors since the start. */
interface Ticks {
  readonly busy: number
  readonly all: number
}

function ticksIn(text: string | null): Ticks | null {
  const fields =
    /^cpu +(.+)$/m
      .exec(text ?? '')?.[1]
      ?.split(' ')
      .map(Number) ?? []
  // user, nice, system, idle, iowait, irq, softirq, steal: guests count within user.
  const [user = 0, nice = 0, system = 0, idle = Number.NaN, iowait = 0, irq = 0, softirq = 0, steal = 0] = fields
  const busy = user + nice + system + irq + softirq + steal
  const all = busy + idle + iowait
  return Number.isFinite(all) ? { busy, all } : null
}

/** The hottest of the computer's thermal zones. */
function hottest(root: string): number | undefined {
  const zones = join(root, 'sys/class/thermal')
  const read = namesIn(zones, /^thermal_zone\d+$/).map((zone) => numberIn(fileText(join(zones, zone, 'temp')), milli))
  const known = read.filter((each) => each !== undefined)
  return known.length === 0 ? undefined : Math.max(...known)
}

function batteryOf(root: string): Found {
  const supplies = join(root, 'sys/class/power_supply')
  const [battery] = namesIn(supplies, /^BAT\d+$/)
  if (battery === undefined) return {}
  const says = (name: string) => fileText(join(supplies, battery, name))?.trim()
  const status = says('status')
  return {
    battery_percent: numberIn(says('capacity')),
    ...(status === undefined ? {} : { on_battery: status === 'Discharging' }),
  }
}

/** What /proc and /sys say of a computer with Linux. It measures the load between two looks. `root`: of the file system. */
export class LinuxHardware {
  private before: Ticks | null = null

  constructor(private readonly root = '/') {}

  look(): Found {
    const { root } = this
    return {
      ...memoryIn(fileText(join(root, 'proc/meminfo'))),
      load_percent: this.load(ticksIn(fileText(join(root, 'proc/stat')))),
      temperature_c: hottest(root),
      ...batteryOf(root),
    }
  }

  private load(now: Ticks | null): number | undefined {
    const { before } = this
    this.before = now
    if (now === null || before === null || now.all <= before.all) return undefined
    return Math.round((100 * (now.busy - before.busy)) / (now.all - before.all))
  }
}
