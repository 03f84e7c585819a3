import { expect, test } from 'bun:test'
import { ChangeFeed } from '../../../src/actors/durable/change-feed.ts'
import { createPoolFeed } from '../../../src/actors/pool/pool-feed.ts'
import { PoolRouter } from '../../../src/actors/pool/pool-router.ts'
import { putModelEntry } from '../../../src/db/queries/pool/model-entries.ts'
import { deleteNode, insertNode } from '../../../src/db/queries/pool/pool.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { createLog } from '../../../src/log.ts'
import type { RoutingTable } from '../../../src/machines/rules/routing.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { settled } from '../../support/run/wait-until.ts'

const database = await fixture(testDatabase())
await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('local', 'local', ${Buffer.from('hash')}, ${Buffer.from('sealed')})`

test('§26: nodes and catalogue entries that change in the database reach the table of a running gateway', async () => {
  const read = readConfig({})
  if ('faults' in read) throw new Error('faults')
  const log = createLog('silent', () => {})
  const node = startFakeNode({ models: ['up'] })
  const changes = new ChangeFeed({ db: database.db, sql: database.sql, log })
  const router = new PoolRouter({
    config: read.config,
    db: database.db,
    log,
    openSecret: () => null,
    inspect: () => {},
  })
  const feed = createPoolFeed(router, database.db, changes, log)
  const until = (holds: (table: RoutingTable) => boolean) =>
    settled(
      'the table',
      new Promise<void>((resolve) => {
        const look = (table: RoutingTable) => {
          if (!holds(table)) return
          end()
          resolve()
        }
        const end = router.subscribe(look)
        look(router.table())
      }),
    )
  try {
    await changes.start()
    await feed.start()
    await router.whenServing()
    expect(router.table().routes).toEqual([])
    const row = await insertNode(database.db, {
      customerId: 'local',
      kind: 'runtime',
      name: 'n',
      url: node.url,
      visibility: 'private',
      privacyClass: 'private',
      nodeClass: 'default',
    })
    await until((table) => table.byModel.get('up')?.[0]?.ready === true)
    await putModelEntry(database.db, { modelId: 'public-name', aliases: ['up'] })
    await until((table) => table.byModel.get('public-name')?.[0]?.upstreamModelId === 'up')
    await deleteNode(database.db, row.nodeId)
    await until((table) => table.routes.length === 0)
  } finally {
    feed.stop()
    await changes.stop()
    await router.stop()
    node.stop()
  }
})
