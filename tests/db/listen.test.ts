import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { listenTo } from '../../src/db/queries/change-feed.ts'
import { severable } from '../support/gateways/severed-database.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

test('§26: a channel that could not be heard at first is heard once the database is there: the driver asks again', async () => {
  const database = await testDatabase()
  await using way = await scoped(severable(database.url))
  await way.sever()
  await using opened = await scoped(openDatabase({ url: way.url, connectionsMax: 2 }))
  const heard: string[] = []
  const listening = listenTo(opened.sql, 'a_channel', (text) => void heard.push(text))
  await expect(listening).rejects.toThrow('ECONNREFUSED')
  await way.restore()
  await waitUntil('it is heard', async () => {
    await database.sql.notify('a_channel', 'hello')
    return heard.length > 0
  })
  expect(heard[0]).toBe('hello')
})
