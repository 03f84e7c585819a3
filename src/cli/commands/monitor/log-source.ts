import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { parseProofLines } from '../../../protocol/log/checkpoint.ts'
import { type ForkProof, readFork } from '../../../protocol/log/fork-proof.ts'
import type { TreeHash } from '../../../protocol/log/merkle-log.ts'
import { parseEntryBundle, tilePath, tileWidth } from '../../../protocol/log/tiles.ts'
import { type Fields, fieldsOf, listOf, textOf, textsOf } from '../../../protocol/verify/given.ts'
import { secondMs } from '../../../time.ts'
import { boundedBytes } from './bounded-bytes.ts'

/** The log did not answer, or not as a log does. */
export class LogUnreachable extends Error {
  override readonly name = 'LogUnreachable'
}

/** What a monitor reads of a gateway: public answers alone. All reject with `LogUnreachable`. */
export interface LogSource {
  /** null: the log has no entry yet. */
  checkpoint(): Promise<string | null>
  /** Entries from `from` to before `to`, in pieces of at most 256. */
  entries(from: number, to: number): AsyncIterable<readonly Uint8Array[]>
  /** null: the log does not give it. */
  consistency(from: number, to: number): Promise<readonly TreeHash[] | null>
  forks(size: number): Promise<readonly ForkProof[]>
  /** The text of C2SP `tlog-proof`; null: the log does not hold it. */
  inclusion(hash: string): Promise<string | null>
  /** The newest payout batches, at most 100. */
  batches(): Promise<readonly Fields[]>
  /** null: there is no such batch. */
  leaves(batchId: string): Promise<Fields | null>
}

const answerWithinMs = 30 * secondMs
/** More than 1,000 leaves with their proofs have. */
const answerBytesMax = 8 * 1024 * 1024
/** Longest wait that a busy gateway may ask for, s; and how often in a row. */
const retryAfterMax = 120
const triesMax = 20

export function openLogSource(base: string, signal: AbortSignal): LogSource {
  const root = base.replace(/\/+$/, '').replace(/\/v1(\/public\/log)?$/, '')
  const read = (path: string) => readPath(`${root}${path}`, signal)
  const log = (path: string) => read(`/v1/public/log/${path}`)
  const json = (bytes: Uint8Array | null, path: string) => {
    const value = bytes === null ? null : foreignJson(new TextDecoder().decode(bytes))
    if (value === undefined) throw new LogUnreachable(`the answer to ${path} is no JSON`)
    return value === null ? null : fieldsOf(value)
  }
  return {
    checkpoint: async () => {
      const bytes = await log('checkpoint')
      return bytes === null ? null : new TextDecoder().decode(bytes)
    },
    entries: async function* (from, to) {
      for (let at = from; at < to; ) {
        const index = Math.floor(at / tileWidth)
        const count = Math.min(tileWidth, to - index * tileWidth)
        const path = tilePath({ kind: 'entries', level: 0, index, partial: count === tileWidth ? null : count })
        const entries = parseEntryBundle((await log(path)) ?? new Uint8Array(), count)
        if (entries === null) throw new LogUnreachable(`${path} does not hold ${count} entries`)
        yield entries.slice(at - index * tileWidth)
        at = index * tileWidth + count
      }
    },
    consistency: async (from, to) => {
      const answer = json(await log(`proof?from=${from}&to=${to}`), 'proof')
      return answer === null ? null : parseProofLines(textsOf(answer.proof))
    },
    forks: async (size) =>
      listOf(json(await log(`forks?to=${size}`), 'forks')?.forks).flatMap((one) => readFork(one) ?? []),
    inclusion: async (hash) => textOf(json(await log(`proof?hash=${hash}`), 'proof')?.log_proof),
    batches: async () => {
      const answer = json(await read('/v1/public/settlement?limit=1&batch_limit=100'), 'settlement')
      return listOf(answer?.payout_batches).map(fieldsOf)
    },
    leaves: async (batchId) =>
      json(await read(`/v1/public/payout-batches/${encodeURIComponent(batchId)}/leaves`), 'leaves'),
  }
}

/** null: 404. Waits where the gateway asks for it. */
async function readPath(url: string, signal: AbortSignal): Promise<Uint8Array | null> {
  for (let turn = 0; ; turn++) {
    const response = await fetch(url, {
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerWithinMs)]),
    }).catch((error: unknown) => {
      throw new LogUnreachable(error instanceof Error ? error.name : 'no answer')
    })
    if (response.status === 429 && turn < triesMax) {
      await response.body?.cancel()
      const seconds = Number(response.headers.get('retry-after') ?? 1)
      await waitFor(Math.min(Number.isFinite(seconds) ? Math.max(1, seconds) : 1, retryAfterMax) * secondMs, signal)
      continue
    }
    if (response.status === 404) {
      await response.body?.cancel()
      return null
    }
    const bytes = response.ok && response.body !== null ? await boundedBytes(response.body, answerBytesMax) : null
    if (bytes === null) throw new LogUnreachable(`HTTP ${response.status}`)
    return bytes
  }
}

/** Ends early when the signal does. */
export function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end)
  })
}
