import { brand } from '../../../brand.ts'
import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { type Checkpoint, parseCheckpoint, parseLogProof } from '../../../protocol/log/checkpoint.ts'
import { rootOfLeaves, sameHash, type TreeHash, treeHashBytes } from '../../../protocol/log/merkle-log.ts'
import { parseNote } from '../../../protocol/log/note.ts'
import { promisedWithinMs, type ReadPromise, readPromise } from '../../../protocol/log/promise.ts'
import { tileHashes, tilePath, tileWidth } from '../../../protocol/log/tiles.ts'
import { encodeBase64 } from '../../../protocol/signing/base64.ts'
import { promiseObject, promisesIn } from '../../../protocol/verify/promise.ts'
import type { LogInclusion } from '../../../protocol/wire/money/log.ts'
import { isoTime, minuteMs } from '../../../time.ts'
import { action } from '../../frame/action.ts'
import { CliFailure, exitCodes, GatewayRefusal, UsageFault } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { givenText } from '../../frame/given-text.ts'
import type { Session } from '../../frame/session.ts'
import { growthTo } from './growth.ts'
import { openKnownLogs } from './known-logs.ts'
import { readFile } from './verdict-text.ts'

const prefix = '/v1/public/log'
/** Entries of a log that evidence can hold: 32 bytes of each. */
const entriesMax = 4_194_304
/** The log may show a checkpoint that witnesses have signed in place of one that is younger by less than this. */
const shownLagMs = minuteMs

const checkpointIn = (note: string): Checkpoint | null => parseCheckpoint(parseNote(note)?.text ?? '')

/** null: the log does not hold it. */
async function inclusionOf(gateway: GatewayClient, hash: string): Promise<string | null> {
  try {
    const { body } = await gateway.get<LogInclusion>(`${prefix}/proof?receipt_hash=${hash}`, false)
    return body.log_proof
  } catch (error) {
    if (error instanceof GatewayRefusal && error.refusal.code === 'log_entry_not_found') return null
    throw error
  }
}

/** The leaf hashes of all entries below a checkpoint, tile by tile. */
async function tilesOf(gateway: GatewayClient, { size, root }: Checkpoint): Promise<readonly Uint8Array[]> {
  if (size > entriesMax) throw new CliFailure(`The log has ${size} entries. Evidence can hold ${entriesMax}.`)
  const tiles: Uint8Array[] = []
  const leaves: TreeHash[] = []
  for (let index = 0; index * tileWidth < size; index++) {
    const held = tileHashes({ level: 0, index }, size)
    const partial = held === tileWidth ? null : held
    const tile = await gateway.bytes(`${prefix}/${tilePath({ kind: 'hashes', level: 0, index, partial })}`)
    for (let at = 0; at < tile.length; at += treeHashBytes) leaves.push(tile.subarray(at, at + treeHashBytes))
    tiles.push(tile)
  }
  if (leaves.length !== size || !sameHash(rootOfLeaves(leaves), root)) {
    throw new CliFailure('The entries that the gateway shows do not give its own checkpoint.')
  }
  return tiles
}

/** All entries of the log as it is now, of which none is the receipt. `later`: see `verify promise`. */
async function omissionNow(gateway: GatewayClient, later: unknown) {
  const note = new TextDecoder().decode(await gateway.bytes(`${prefix}/checkpoint`))
  const checkpoint = checkpointIn(note)
  if (checkpoint === null) throw new CliFailure('The gateway shows no checkpoint of a log.')
  const leaves = (await tilesOf(gateway, checkpoint)).map(encodeBase64)
  const omission = { checkpoint: note, fetched_at: isoTime(Date.now()), ...(later === null ? {} : { later }), leaves }
  return { checkpoint, omission }
}

function refuseEarly({ promised }: ReadPromise): void {
  const dueMs = promised.ms + promisedWithinMs
  if (Date.now() >= dueMs + shownLagMs) return
  throw new CliFailure(`The log does not hold the receipt yet. It has until ${isoTime(dueMs)}.`, [
    `Ask again after ${isoTime(dueMs + shownLagMs)}: the newest checkpoint that it shows is then from after that time.`,
  ])
}

/** What became of one promise, as a file that proves itself. */
async function outcomeOf(session: Session, given: unknown, later: unknown) {
  const promise = readPromise(given)
  if (promise === null) throw new CliFailure('This is no promise of a log.', [], exitCodes.unverifiable)
  const gateway = session.gateway()
  const logProof = await inclusionOf(gateway, promise.promised.hash)
  if (logProof === null) refuseEarly(promise)
  const found = logProof === null ? await omissionNow(gateway, later) : null
  const now = found?.checkpoint ?? checkpointIn(parseLogProof(logProof ?? '')?.note ?? '')
  const growth = now === null ? {} : await growthTo(gateway, openKnownLogs(session.env).remembered(now.origin), now)
  const outcome = found === null ? { log_proof: logProof } : { omission: found.omission }
  return { object: promiseObject, receipt: given, ...growth, ...outcome }
}

async function laterPromise(session: Session, given: string | undefined): Promise<unknown> {
  if (given === undefined) return null
  const [promise] = promisesIn(foreignJson(await givenText(session, 'later', given)))
  if (promise === undefined) throw new UsageFault('--later has no promise of a log')
  return promise
}

export const askedPromise = action({
  about:
    'Ask the log what became of a promise, and print a file that proves it: that it was kept, or that it was broken',
  operands: [
    { name: 'FILE', about: 'The answer that bears the promise, or its `svc`. A dash (-) reads standard input.' },
  ],
  options: {
    later: {
      kind: 'text',
      value: '@FILE',
      about:
        'A later answer of the same gateway with its promise: where no witness has signed the checkpoint, it shows when the checkpoint was made',
    },
  },
  run: async ({ operands, options }, session) => {
    const promises = promisesIn(await readFile(session, operands[0] ?? ''))
    if (promises.length === 0) {
      throw new CliFailure('The file has no promise of a log: no `svc.receipt`.', [], exitCodes.unverifiable)
    }
    const later = await laterPromise(session, options.later)
    const files: Awaited<ReturnType<typeof outcomeOf>>[] = []
    for (const promise of promises) files.push(await outcomeOf(session, promise, later))
    session.show(true, files.length === 1 ? files[0] : { object: `${brand}.bundle`, files }, () => '')
    const broken = files.filter((file) => 'omission' in file)
    if (broken.length === 0) return undefined
    session.terminal.err(
      `The log broke ${broken.length} of ${files.length} promises. \`verify promise\` checks the evidence.\n`,
    )
    return exitCodes.failed
  },
})
