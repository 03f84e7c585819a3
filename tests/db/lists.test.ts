import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { idList, listText } from '../../src/db/arrays.ts'
import { newId } from '../../src/ids.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

const read = async (texts: readonly string[]) => {
  const rows = await database.sql<{ list: (string | null)[] }[]>`
    select array_to_json(list_of(value)) as list from json_array_elements_text(${JSON.stringify(texts)}::text::json) with ordinality
    order by ordinality`
  return rows.map(({ list }) => list)
}

test('the database reads a list of texts as it was, whatever separators, quotes and braces are in it', async () => {
  const units = fc.constantFrom('a', 'é', '{', '}', ',', '"', '\\', ' ', 'NULL', '\x1e', '\x1f')
  const value = fc.oneof(fc.constant(null), fc.string({ unit: units, maxLength: 6 }))
  const lists = fc.sample(fc.array(value, { maxLength: 5 }), 500)
  expect(await read(lists.map(listText))).toEqual(lists)
})

test('the database reads ids and gaps between them as they were', async () => {
  const [a, b] = [newId('led'), newId('pay')]
  const lists = [[], [a], [null], [a, null, b], [null, null], [null, a], [a, b, null]]
  expect(await read(lists.map(idList))).toEqual(lists)
})
