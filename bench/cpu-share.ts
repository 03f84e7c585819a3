import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const mounted = '/sys/fs/cgroup'
/** Short, so that a process that used up its share waits for milliseconds and not for tenths of a second. */
const periodUs = 10_000

/** Which of Linux's two interfaces hands out processor time here; null: none, or none that this user may use. */
function interfaceHere(): 1 | 2 | null {
  if (existsSync(join(mounted, 'cpu', 'cpu.cfs_quota_us'))) return 1
  const controllers = join(mounted, 'cgroup.subtree_control')
  return existsSync(controllers) && readFileSync(controllers, 'utf8').split(/\s+/).includes('cpu') ? 2 : null
}

/** A part of one core that a process has, whatever the others do, and beyond which it waits (control groups of Linux). */
export class CpuShare {
  private constructor(private readonly folder: string) {}

  /** `cores`: 0.2 is a fifth of the time of one. null where this user may make no control group. */
  static make(name: string, cores: number): CpuShare | null {
    const kind = interfaceHere()
    if (kind === null) return null
    const folder = join(mounted, ...(kind === 1 ? ['cpu'] : []), `penstock-bench-${process.pid}-${name}`)
    const quotaUs = Math.round(cores * periodUs)
    try {
      mkdirSync(folder)
    } catch {
      return null
    }
    const share = new CpuShare(folder)
    try {
      if (kind === 1) {
        writeFileSync(join(folder, 'cpu.cfs_period_us'), String(periodUs))
        writeFileSync(join(folder, 'cpu.cfs_quota_us'), String(quotaUs))
      } else writeFileSync(join(folder, 'cpu.max'), `${quotaUs} ${periodUs}`)
      return share
    } catch {
      share.remove()
      return null
    }
  }

  /** All threads of the process. What it has started already stays outside. */
  hold(pid: number): void {
    writeFileSync(join(this.folder, 'cgroup.procs'), String(pid))
  }

  /** After its processes have ended. */
  remove(): void {
    rmdirSync(this.folder)
  }
}
