import { type Loop, loop } from '../../host/loop.ts'
import type { Hardware } from '../../protocol/wire/nodes/hardware.ts'
import { amdGpus } from './amd.ts'
import { DiskRoom, type Statfs } from './disk.ts'
import { LinuxHardware } from './linux.ts'
import { MacHardware } from './macos.ts'
import { type Found, hardwareOf } from './numbers.ts'
import { nvidiaGpus } from './nvidia.ts'
import { toolMs as toolMsDefault } from './tool.ts'

export interface HardwareOptions {
  /** The agent's own: its file system is looked at. */
  readonly folder: string
  readonly everyMs?: number
  /** Of the tools; default: that of the agent. */
  readonly path?: string
  /** How long one tool may take, ms. */
  readonly toolMs?: number
  /** Of the file system. */
  readonly root?: string
  readonly platform?: NodeJS.Platform
  /** The kernel's; another one in tests. */
  readonly statfs?: Statfs
}

export interface HardwareWatch extends Pick<Loop, 'stop'> {
  /** As it was at the last look; null: nothing is known yet. */
  now(): Hardware | null
  /** Looks at once. */
  look(): Promise<void>
}

const everyMsDefault = 10_000
/** All tools at their bounds. */
const lookMsMax = 30_000

/**
 * Looks at this computer every so often, in the background: a status never waits for a tool. Tools that are not there, fail
 * or hang leave out what they would have said.
 */
export function watchHardware(options: HardwareOptions): HardwareWatch {
  const { folder, everyMs = everyMsDefault, path, toolMs = toolMsDefault, root = '/' } = options
  const { platform = process.platform } = options
  const disk = new DiskRoom(options.statfs)
  const linux = new LinuxHardware(root)
  const mac = new MacHardware()
  let known: Hardware | null = null
  const look = async (signal: AbortSignal) => {
    const run = { path, signal, boundMs: toolMs }
    const system: Promise<Found> | Found =
      platform === 'darwin' ? mac.look(run) : platform === 'linux' ? linux.look() : {}
    const [own, nvidia, free] = await Promise.all([
      system,
      platform === 'darwin' ? [] : nvidiaGpus(run),
      disk.freeMb(folder, toolMs),
    ])
    const amd = platform === 'linux' ? amdGpus(root) : []
    const ofMac = Array.isArray(own.gpus) ? own.gpus : []
    if (!signal.aborted) known = hardwareOf({ ...own, gpus: [...nvidia, ...amd, ...ofMac], disk_free_mb: free })
  }
  // What was seen before a look that failed may be long past.
  const forget = () => {
    known = null
  }
  const looking = loop({ everyMs, boundMs: lookMsMax, run: look, onFailure: forget })
  void looking.startNow()
  return { now: () => known, look: () => looking.now(), stop: () => looking.stop() }
}
