import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { type Checkpoint, parseCheckpoint, parseLogProof } from '../../protocol/log/checkpoint.ts'
import { parseNote, parseNoteKey } from '../../protocol/log/note.ts'
import { lineageOf } from '../../protocol/log/origins.ts'
import { verifyEd25519 } from '../../protocol/signing/ed25519.ts'
import { fieldsOf } from '../../protocol/verify/given.ts'
import { growthTo } from '../../protocol/verify/growth.ts'
import { logged } from '../../protocol/verify/logged.ts'
import type { Trust } from '../../protocol/verify/trust.ts'
import type { WitnessedLog } from '../witness/witness-memory.ts'

const answerTimeoutMs = 30_000
const answerBytesMax = 1024 * 1024
const notThere = 'log_entry_not_found'

/**
 * `unproven`: the gateway says that the log holds it, and its proof does not hold for the log that this node witnesses. `unknown`: this
 * node witnesses no log, as one that an earlier version has enrolled, and cannot judge.
 */
export type LogPlace = 'logged' | 'absent' | 'unproven' | 'unknown'

const checkpointOf = (note: string | null): Checkpoint | null => parseCheckpoint(parseNote(note ?? '')?.text ?? '')

/** What this node knows of the logs that it witnesses. */
function trustOf(logs: readonly WitnessedLog[]): Trust {
  const remembered = logs.flatMap(({ note }) => checkpointOf(note) ?? [])
  return {
    logKeys: logs.flatMap(({ keys }) => keys.flatMap((key) => parseNoteKey(key) ?? [])),
    witnessKeys: [],
    nodeKeys: [],
    auditKeys: [],
    witnessesMin: 0,
    logNeeded: true,
    remembered: (origin) => remembered.filter((one) => lineageOf(one.origin) === lineageOf(origin)),
    verify: verifyEd25519,
  }
}

/**
 * Looks receipts up in the public log of a gateway. Believes only a proof below a checkpoint that a known key of the log has
 * signed, and that leads on from, or to, the one that this node has signed as a witness.
 */
export function lookUpAt(gatewayUrl: string, logs: () => readonly WitnessedLog[]) {
  const ask = async (path: string): Promise<{ readonly status: number; readonly answer: unknown }> => {
    const signal = AbortSignal.timeout(answerTimeoutMs)
    const response = await fetch(`${gatewayUrl}/v1/public/log/${path}`, { redirect: 'error', signal })
    return { status: response.status, answer: await foreignAnswer(response, answerBytesMax) }
  }
  /** Rejects where the gateway does not answer as it should. */
  return async (hash: string): Promise<LogPlace> => {
    if (logs().length === 0) return 'unknown'
    const { status, answer } = await ask(`proof?receipt_hash=${hash}`)
    if (status === 404 && fieldsOf(answer).code === notThere) return 'absent'
    if (status !== 200) throw new Error('no answer of the log')
    const { log_proof: proof } = fieldsOf(answer)
    const trust = trustOf(logs())
    const now = checkpointOf(parseLogProof(typeof proof === 'string' ? proof : '')?.note ?? null)
    if (now === null) return 'unproven'
    const growth = await growthTo(async (path) => (await ask(path)).answer, trust.remembered(now.origin), now)
    const { checks, index } = logged('receipt', hash, proof, { ...growth }, trust)
    return index !== null && checks.every(({ ok }) => ok !== false) ? 'logged' : 'unproven'
  }
}
