import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { type Backoff, backoffMs } from '../../backoff.ts'
import { sleep } from '../../clock.ts'
import { hashOf } from './file-hashes.ts'
import type { HubFile } from './hubs/hub.ts'
import { type HubAnswer, type HubFetch, succeeded } from './hubs/hub-fetch.ts'
import { PullFault } from './hubs/pull-fault.ts'
import { partOf } from './pull-places.ts'
import type { Turn } from './turns.ts'

export interface DownloadTimes {
  readonly backoff: Backoff
  /** In a row, without a byte between them. */
  readonly failuresMax: number
}
const downloadTimes: DownloadTimes = {
  backoff: { firstMs: 1_000, maxMs: 30_000 },
  failuresMax: 6,
}

export interface Download {
  readonly file: Pick<HubFile, 'url' | 'bytes' | 'sha256'>
  /** Absolute: where it stands when it is whole. */
  readonly path: string
  readonly get: HubFetch
  readonly signal: AbortSignal
  /** Each piece waits for it. */
  readonly turn: Turn
  /** Hears how much of it is there, bytes. */
  readonly progress: (bytes: number) => void
  readonly times?: DownloadTimes
}

const codeOf = (error: unknown) => String((error as { code?: unknown }).code)
const full: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
/** The disk has no room, or lets its user have no more. */
export const isFull = (error: unknown): boolean => full.has(codeOf(error))

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}

/**
 * Fetches a file, on from where an earlier try stopped, and gives it its name once its hash is right. Rejects with `PullFault`, and as
 * the signal does. What is there of it stays for the next try, unless the hash is wrong or the disk is full.
 */
export async function download(options: Download): Promise<void> {
  const { file, path, signal, progress, turn } = options
  const part = partOf(path)
  if ((await sizeOf(path)) === file.bytes && (await hashOf(path, signal, turn)) === file.sha256)
    return progress(file.bytes)
  try {
    await fetchAll(options, part)
  } catch (error) {
    if (!isFull(error)) throw error
    // Others need the room more than the next try needs this part.
    await rm(part, { force: true })
    throw new PullFault('disk_full', { cause: error })
  }
  // Also what an earlier try has left, which somebody may have changed.
  if ((await hashOf(part, signal, turn)) !== file.sha256) {
    await rm(part, { force: true })
    throw new PullFault('wrong_hash')
  }
  await rename(part, path)
}

/** Until all bytes are there, with as many connections as that takes. */
async function fetchAll(options: Download, part: string): Promise<void> {
  const { file, signal, times = downloadTimes } = options
  for (let failures = 0; ; ) {
    const before = (await sizeOf(part)) ?? 0
    if (before === file.bytes) return
    // More than the hub says: it is another file.
    if (before > file.bytes) await rm(part, { force: true })
    try {
      await fetchSome(options, part, before > file.bytes ? 0 : before)
    } catch (error) {
      if (signal.aborted || !(error instanceof PullFault) || error.failure !== 'hub_unavailable') throw error
      const after = (await sizeOf(part)) ?? 0
      failures = after > before ? 1 : failures + 1
      if (failures >= times.failuresMax) throw error
      await sleep(backoffMs(times.backoff, failures), signal)
      signal.throwIfAborted()
    }
  }
}

/** One connection. Rejects with `hub_unavailable` where it ends early. */
async function fetchSome(options: Download, part: string, from: number): Promise<void> {
  const { file, get, progress, turn, signal } = options
  const answer = succeeded(await get(file.url, from === 0 ? {} : { range: `bytes=${from}-` }))
  const goesOn = answer.status === 206 && startOf(answer) === from
  // A hub that gives the whole file again is taken at its word.
  if (!goesOn && answer.status !== 200) {
    answer.leave()
    throw new PullFault('hub_malformed')
  }
  const handle = await open(part, goesOn && from > 0 ? 'a' : 'w', 0o600)
  let size = goesOn ? from : 0
  try {
    progress(size)
    for await (const chunk of answer.chunks()) {
      size += chunk.length
      if (size > file.bytes) throw new PullFault('wrong_hash')
      await turn(signal)
      await writeAll(handle, chunk)
      progress(size)
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
  if (size < file.bytes) throw new PullFault('hub_unavailable')
}

const startOf = ({ headers }: HubAnswer): number | null => {
  const range = headers.get('content-range')
  // Of a request without a range the whole is the answer.
  return range === null ? null : Number(/^bytes (\d{1,16})-/.exec(range)?.[1])
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten
}
