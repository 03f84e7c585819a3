import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const memoryFolder = '/dev/shm'
/** What Linux calls a file system in memory. */
const tmpfsType = 0x01021994
/** The databases and folders of a run take less than 1 GiB. */
const freeBytesMin = 4 * 1024 ** 3

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false
  const { type, bavail, bsize } = statfsSync(folder)
  return type === tmpfsType && bavail * bsize >= freeBytesMin
}

/** Containers often forbid it there. */
function runsPrograms(folder: string): boolean {
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\nexit 0\n', { mode: 0o755 })
  const ended = spawnSync(program)
  rmSync(program)
  return ended.status === 0
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** What runs left behind that were killed: it would hold memory until the machine starts anew. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent)) {
    const [, pid] = /^pt-(\d+)-/.exec(name) ?? []
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true })
  }
}

/**
 * A new folder for what a run writes: in memory where there is room. A disk on which others wait for their data keeps a
 * test waiting that makes a database of 700 files (measured beside other work: 2 s, in memory 0.1 s).
 */
export function makeTestFolder(): string {
  for (const parent of hasRoom(memoryFolder) ? [memoryFolder, tmpdir()] : [tmpdir()]) {
    removeAbandoned(parent)
    const folder = mkdtempSync(join(parent, `pt-${process.pid}-`))
    // As root the server runs as another user, who must reach its folder.
    chmodSync(folder, 0o755)
    if (parent !== memoryFolder || runsPrograms(folder)) return folder
    rmSync(folder, { recursive: true })
  }
  throw new Error('no folder for the tests')
}
