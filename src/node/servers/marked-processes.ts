import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { product } from '../../brand.ts'
import { holdsWithin } from '../../deadline.ts'
import { nvidiaProcesses } from '../hardware/nvidia.ts'
import type { ToolRun } from '../hardware/tool.ts'

/**
 * The variable by which the processes of a model server are known, whatever group or session they have moved to: every
 * process inherits its environment. The value is a word of this run of the agent and the number of the start.
 */
export const markVariable = `${product.toUpperCase()}_MODEL_SERVER`

/** How often the end of processes is looked for, ms. */
const lookMs = 20

function environmentHas(pid: string, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1')
      .split('\0')
      .some((entry) => entry.startsWith(mark))
  } catch {
    // It has ended, or belongs to another user.
    return false
  }
}

/** Where the system has no /proc; the environment stands behind the command there. */
function listedBy(mark: string): readonly number[] {
  const { stdout } = spawnSync('ps', ['-axwwE', '-o', 'pid=,command='], { encoding: 'utf8' })
  const lines = (stdout ?? '').split('\n').filter((line) => line.includes(` ${mark}`))
  return lines.map((line) => Number.parseInt(line, 10)).filter((pid) => pid > 0)
}

/** The processes whose mark begins with `word`. */
export function markedProcesses(word: string): readonly number[] {
  const mark = `${markVariable}=${word}`
  if (process.platform !== 'linux') return listedBy(mark)
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => environmentHas(pid, mark)).map(Number)
}

/** VmRSS of a process, KiB; 0: it has ended. */
function residentKb(pid: number): number {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-o', 'rss=', '-p', String(pid)], { encoding: 'utf8' })
    return Number.parseInt(stdout ?? '', 10) || 0
  }
  try {
    return Number(/^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

/**
 * MiB in memory of the processes whose mark begins with `word`, by their whole mark, with what they have in the memory of NVIDIA's
 * cards. What several share counts for each.
 */
export async function residentByMark(
  word: string,
  tool: Omit<ToolRun, 'command'>,
): Promise<ReadonlyMap<string, number>> {
  const onCards = await nvidiaProcesses(tool)
  const sums = new Map<string, number>()
  for (const pid of markedProcesses(word)) {
    const mark = markOf(pid, word)
    const kb = residentKb(pid) + (onCards.get(pid) ?? 0) * 1_024
    if (mark !== null) sums.set(mark, (sums.get(mark) ?? 0) + kb)
  }
  return new Map([...sums].map(([mark, kb]) => [mark, Math.round(kb / 1_024)]))
}

/** null: it has ended. */
function markOf(pid: number, word: string): string | null {
  const name = `${markVariable}=`
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-wwE', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
    return (
      (stdout ?? '')
        .split(' ')
        .find((part) => part.startsWith(`${name}${word}`))
        ?.slice(name.length) ?? null
    )
  }
  try {
    const entries = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
    return entries.find((entry) => entry.startsWith(`${name}${word}`))?.slice(name.length) ?? null
  } catch {
    return null
  }
}

export function signalAll(pids: readonly number[], signal: 'SIGTERM' | 'SIGKILL'): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended.
    }
  }
}

/** Kills what has this mark; resolves with false if some of it is still there after `withinMs`. */
export function killMarked(word: string, withinMs: number): Promise<boolean> {
  return holdsWithin(withinMs, lookMs, () => {
    const left = markedProcesses(word)
    signalAll(left, 'SIGKILL')
    return left.length === 0
  })
}
