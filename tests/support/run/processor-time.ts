import { readFileSync } from 'node:fs'

/** Ticks of `/proc` in a second, as Linux shows them to programs. */
const ticksPerSecond = 100

/** What a process has used of processors so far, its own time and the kernel's for it, s; 0: it has ended. */
export function processorSeconds(pid: number): number {
  try {
    const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    const fields = rest.split(' ')
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
  } catch {
    return 0
  }
}
