import { openSync, writeSync } from 'node:fs'
import { openDatabase } from '../../../src/db/client.ts'
import { descriptors } from '../../../src/host/descriptors.ts'
import { createDirectTransport } from '../../../src/transport/http1/direct.ts'
import { TransportError } from '../../../src/transport/transport.ts'

/**
 * A process without a descriptor left connects to a node and to the database: `bun exhausted-child.ts <node's URL>
 * <database's URL>`. Prints what came of both, first with what is held back for this, then without.
 */
const [, , nodeUrl = '', databaseUrl = ''] = process.argv

function takeAll(): void {
  try {
    for (;;) openSync('/dev/null', 'r')
  } catch {
    // None is left.
  }
}

async function node(): Promise<string> {
  const transport = createDirectTransport({ url: nodeUrl, apiKey: null, connectTimeoutMs: 5_000 })
  try {
    const { signal } = new AbortController()
    return String((await transport.fetch('/v1/models', { method: 'GET', signal })).status)
  } catch (error) {
    return error instanceof TransportError ? error.failure : String(error)
  }
}

async function database(): Promise<string> {
  const { sql } = openDatabase({ url: databaseUrl, connectionsMax: 1 })
  return sql`select 1 as one`.then(
    ([row]) => String(row?.one),
    (error: { readonly code?: unknown }) => String(error.code),
  )
}

descriptors.look()
takeAll()
const lent = { node: await node(), database: await database(), exhausted: descriptors.exhausted() }
descriptors.close()
takeAll()
const without = { node: await node(), database: await database(), exhausted: descriptors.exhausted() }
writeSync(1, JSON.stringify({ lent, without }))
process.exit(0)
