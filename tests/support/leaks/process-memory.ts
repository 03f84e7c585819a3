import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

/** Of one read, bytes; reads overlap by the longest marker. */
const readBytes = 4 * 1024 * 1024
const overlapBytes = 4 * 1024

/** All that a process has in memory and may read. */
function* readableRanges(pid: number): Generator<readonly [from: number, to: number]> {
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from, to, rights = ''] = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line) ?? []
    if (from === undefined || to === undefined || !rights.startsWith('r') || /\[v(?:var|syscall|dso)/.test(line))
      continue
    yield [Number.parseInt(from, 16), Number.parseInt(to, 16)]
  }
}

/** How often the marker stands in the memory of the process, in either width of its characters. */
export function countInMemory(pid: number, marker: string): number {
  const needles = [Buffer.from(marker, 'latin1'), Buffer.from(marker, 'utf16le')]
  const handle = openSync(`/proc/${pid}/mem`, 'r')
  const buffer = Buffer.alloc(readBytes + overlapBytes)
  let found = 0
  try {
    for (const [from, to] of readableRanges(pid)) {
      for (let at = from; at < to; at += readBytes) {
        const bytes = readAt(handle, buffer, Math.min(to - at, buffer.length), at)
        const part = buffer.subarray(0, bytes)
        for (const needle of needles) if (part.includes(needle)) found++
      }
    }
  } finally {
    closeSync(handle)
  }
  return found
}

/** 0 where nothing is mapped behind the addresses. */
function readAt(handle: number, buffer: Buffer, bytes: number, at: number): number {
  try {
    return readSync(handle, buffer, 0, bytes, at)
  } catch {
    return 0
  }
}
