import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { proofTextOf } from '../../actors/log/public-log.ts'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { writtenFork } from '../../protocol/log/fork-proof.ts'
import { logEntryText } from '../../protocol/log/log-entry.ts'
import { parseTilePath } from '../../protocol/log/tiles.ts'
import { encodeBase64 } from '../../protocol/signing/base64.ts'
import { LogConsistency, LogForks, LogInclusion, LogKeys, LogWitnesses } from '../../protocol/wire/money/log.ts'
import { filter } from '../../protocol/wire/query.ts'
import type { HttpContext } from '../frame/context.ts'
import { asks, invalidParameter } from '../frame/query.ts'
import { describe } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'

const prefix = '/v1/public/log'
const tags = ['Public log (extension)']
const soon = 'public, max-age=2'
const forEver = 'public, max-age=31536000, immutable'

const notThere = () => new Problem('log_entry_not_found')

const checkpointRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/checkpoint`,
    async ({ set }) => {
      const note = await context.gateway.publicLog.checkpoint()
      if (note === null) throw notThere()
      set.headers['cache-control'] = soon
      set.headers['content-type'] = 'text/plain; charset=utf-8'
      return note
    },
    {
      response: { 200: Type.String() },
      detail: {
        ...describe({
          summary: 'The newest checkpoint of the public log',
          description: 'A signed note (C2SP `tlog-checkpoint`) with the cosignatures of witnesses.',
          tags,
          mediaType: 'text/plain',
        }),
        security: [],
      },
    },
  )

const keysRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/keys`,
    async ({ set }) => {
      const { origin, keys } = await context.gateway.publicLog.keys()
      set.headers['cache-control'] = soon
      return { object: `${brand}.log_keys` as const, origin, keys: [...keys] }
    },
    {
      response: { 200: LogKeys },
      detail: {
        ...describe({
          summary: 'The name and the keys of the public log',
          description:
            'Keep them when you first see them: if you ask again each time, you trust the server that answers.',
          tags,
        }),
        security: [],
      },
    },
  )

const witnessesRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/witnesses`,
    async ({ set }) => {
      set.headers['cache-control'] = soon
      return {
        object: `${brand}.log_witnesses` as const,
        witnesses: [...(await context.gateway.publicLog.witnesses())],
      }
    },
    {
      response: { 200: LogWitnesses },
      detail: {
        ...describe({
          summary: 'The keys of the witnesses of the public log',
          description:
            'Each as `name+hash+key` (C2SP `signed-note`). `agent`: of a node of this pool, which its operator may own; `other`: of a witness that the settings name. Compare a key with its owner (`node status`) before you count on it.',
          tags,
        }),
        security: [],
      },
    },
  )

const forksRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/forks`,
    async ({ query: { to }, set }) => {
      const found = await context.gateway.publicLog.forks(to === null ? null : Number(to))
      if (found === null) throw notThere()
      set.headers['cache-control'] = soon
      return { object: `${brand}.log_forks` as const, size: found.size, forks: found.forks.map(writtenFork) }
    },
    {
      response: { 200: LogForks },
      ...asks({ to: sizeOf('Below the tree of so many entries; absent: of the newest checkpoint') }),
      detail: {
        ...describe({
          summary: 'The forks of the public log',
          description:
            'Each with the checkpoint that was lost and the proof that the log contains its entry, newest first: who saw the log under an earlier name follows it from there.',
          tags,
        }),
        security: [],
      },
    },
  )

const tileRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/tile/*`,
    async ({ params, set }) => {
      // A schema of this parameter makes Elysia print a fault of its own; the parser bounds it.
      const name = parseTilePath(`tile/${params['*']}`)
      const tile = name === null ? null : await context.gateway.publicLog.tile(name)
      if (tile === null) throw notThere()
      set.headers['cache-control'] = forEver
      set.headers['content-type'] = 'application/octet-stream'
      return new Response(new Uint8Array(tile))
    },
    {
      detail: {
        ...describe({
          summary: 'A tile of the public log',
          description:
            'C2SP `tlog-tiles`: `0/x001/234` has 256 hashes of 32 bytes, `0/x001/234.p/7` the first 7 of them, `entries/…` the entries. None of them ever changes.',
          tags,
          mediaType: 'application/octet-stream',
        }),
        security: [],
      },
    },
  )

const hashOf = (description: string) =>
  filter(description, '^0x[0-9a-f]{64}$', '0x and 64 hexadecimal digits in lower case')
const sizeOf = (description: string) => filter(description, '^(0|[1-9][0-9]{0,14})$', 'a whole number')
const query = {
  receipt_hash: hashOf('Prove that this receipt is in the log'),
  hash: hashOf('Likewise, of an entry of any kind'),
  from: sizeOf('Prove that the tree of so many entries is the beginning'),
  to: sizeOf('of this one; absent: of the newest checkpoint'),
}

async function inclusionOf({ gateway }: HttpContext, hash: string) {
  const found = await gateway.publicLog.inclusion(hash)
  if (found === null) throw notThere()
  return {
    object: `${brand}.log_inclusion` as const,
    entry: logEntryText(found),
    index: found.index,
    size: found.size,
    proof: found.proof.map(encodeBase64),
    signature_ed25519: found.signature,
    log_proof: proofTextOf(found),
  }
}

async function consistencyOf({ gateway }: HttpContext, from: number, to: number | null) {
  const found = await gateway.publicLog.consistency(from, to)
  if (found === null) throw notThere()
  return { object: `${brand}.log_consistency` as const, from, to: found.size, proof: found.proof.map(encodeBase64) }
}

const proofRoute = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    `${prefix}/proof`,
    async ({ query: { receipt_hash, hash, from, to }, set }) => {
      const wanted = receipt_hash ?? hash
      if (wanted === null && from === null)
        throw invalidParameter('receipt_hash', 'is missing. Send it, or `hash`, or `from`', 'required')
      set.headers['cache-control'] = soon
      if (wanted !== null) return inclusionOf(context, wanted)
      return consistencyOf(context, Number(from), to === null ? null : Number(to))
    },
    {
      response: { 200: Type.Union([LogInclusion, LogConsistency]) },
      ...asks(query),
      detail: {
        ...describe({
          summary: 'Prove that an entry is in the log, or that the log only grew',
          description:
            '`receipt_hash` (or `hash`, of any entry) gives an inclusion proof below the newest checkpoint; `from` and `to` (absent: the newest checkpoint) give a consistency proof of two sizes.',
          tags,
        }),
        security: [],
      },
    },
  )

/** What anybody may read of the log (§31). */
export const publicLogRoutes = (context: HttpContext) =>
  new Elysia()
    .use(checkpointRoute(context))
    .use(keysRoute(context))
    .use(witnessesRoute(context))
    .use(forksRoute(context))
    .use(tileRoute(context))
    .use(proofRoute(context))
