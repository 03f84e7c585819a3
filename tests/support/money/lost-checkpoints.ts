import { seededKey } from '../../../src/actors/accounts/seeded-key.ts'
import { type AskedWitness, type Cosigning, createCosigning } from '../../../src/actors/log/cosigning.ts'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { createWitness } from '../../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../../src/node/witness/witness-memory.ts'
import { answerWitness } from '../../../src/node/witness/witness-routes.ts'
import { parseCheckpoint } from '../../../src/protocol/log/checkpoint.ts'
import { noteKeyText, parseNote, parseNoteKey } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { encodeBase64 } from '../../../src/protocol/signing/base64.ts'
import { startTestGateway, stillLog } from '../gateways/http-gateway.ts'
import { receiptOf } from './forging.ts'
import { insertReceipts } from './insert-receipts.ts'
import { keepLog } from './kept-log.ts'

const logKey = seededKey('77'.repeat(32))
const checkpointOf = (note: string) => parseCheckpoint(parseNote(note)?.text ?? '')

/** A gateway with a log that can be put back, and that asks a witness when it is told to. */
export async function startLosingGateway() {
  let kept: string | null = null
  const logMemory = {
    read: () => kept,
    write: (text: string) => {
      kept = text
    },
  }
  const env = { ...stillLog, SVC_LOG_COSIGN_MS: '600000' }
  const gateway = await startTestGateway(env, undefined, { logMemory })
  const { db, sql } = gateway.database
  const { sequencer } = gateway.gateway
  /** One entry more. Resolves with the newest checkpoint, signed. */
  const grow = async (): Promise<string> => {
    await insertReceipts(gateway.database, [receiptOf()])
    await sequencer.catchUp()
    const [row] = await sql<{ note: string }[]>`select note from log_checkpoints order by size desc limit 1`
    return row?.note ?? ''
  }
  /** So many checkpoints, which are lost then: the log is put back to before them. */
  const lose = async (count: number): Promise<readonly string[]> => {
    const putBack = await keepLog(sql)
    const lost: string[] = []
    for (let at = 0; at < count; at++) lost.push(await grow())
    await putBack()
    await grow()
    return lost
  }
  /** What an admin does then. Resolves with the status. */
  const nameFork = async (): Promise<number> => {
    const json = { reason: 'restored', confirm: 'NAME THE FORK' }
    return (await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json })).status
  }
  return {
    stop: () => gateway.stop(),
    sql,
    sequencer,
    grow,
    lose,
    nameFork,
    loseAndName: async (count: number): Promise<readonly string[]> => {
      const lost = await lose(count)
      const status = await nameFork()
      if (status !== 200) throw new Error(`the fork is not named: ${status}`)
      return lost
    },
    forks: async () => (await sql`select 1 from log_forks`).length,
    /** As a process that has this witness alone. */
    cosigningBy: (witness: AskedWitness): Cosigning => {
      const options = { db, log: createLog('silent', () => {}), keys: [logKey], everyMs: 600_000 }
      return createCosigning({ ...options, sequencer, witnesses: async () => [witness] })
    },
  }
}

/** A witness that shows each of these checkpoints as its last one, in turn, though it has only read them, and signs nothing. Then it is not reached. */
export function showing(name: string, notes: readonly string[], owner?: string): AskedWitness {
  const left = [...notes]
  return {
    key: logSigner(name, seededKey('06'.repeat(32))).cosigningKey,
    ...(owner === undefined ? {} : { owner }),
    ask: async () => {
      const note = left.shift()
      if (note === undefined) return null
      return {
        status: 409,
        text: `${checkpointOf(note)?.size}\n`,
        seen: encodeBase64(new TextEncoder().encode(note)),
      }
    },
  }
}

/** An honest agent that has signed this checkpoint last. Its memory is in the folder. */
export function signedLast(note: string, folder: string, seed: string, owner?: string): AskedWitness {
  const origin = checkpointOf(note)?.origin ?? ''
  const memory = openWitnessMemory(openPrivateFolder(folder))
  memory.keep({ origin, keys: [noteKeyText(logSigner(origin, logKey).key)], note })
  const witness = createWitness({ memory, identity: seededKey(seed.repeat(32)), log: createLog('silent', () => {}) })
  const key = parseNoteKey(witness.key)
  if (key === null) throw new Error('a witness without a key')
  return {
    key,
    ...(owner === undefined ? {} : { owner }),
    ask: async (body, extra) => {
      const answer = answerWitness(witness, new Request('http://witness', { headers: { ...extra } }), body)
      return { status: answer.status, text: await answer.text(), seen: answer.headers.get('x-svc-log-seen') }
    },
  }
}
