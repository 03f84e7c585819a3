import { expect, test } from 'bun:test'
import { functionChanges, functionFiles } from '../../scripts/sql-functions.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

test('the migrations define the functions of src/db/functions, and no other', async () => {
  expect(functionFiles().length).toBeGreaterThan(0)
  expect(await functionChanges(database.sql)).toEqual([])
})

test('a changed file becomes its statement, another signature drops the old function, a file that goes drops its own', async () => {
  const files = functionFiles().filter(({ name }) => name !== 'ledger_is_append_only')
  const edited = files.map(({ name, text }) => {
    if (name === 'directory_changed') return { name, text: text.replace('RETURN NULL', 'RETURN NEW') }
    if (name === 'lease_grant') return { name, text: text.replace('p_alone boolean', 'p_alone integer') }
    return { name, text }
  })
  const textOf = (wanted: string) => edited.find(({ name }) => name === wanted)?.text ?? ''
  expect(await functionChanges(database.sql, edited)).toEqual([
    'DROP FUNCTION lease_grant(bigint,bigint,bigint,bigint,boolean);',
    'DROP FUNCTION ledger_is_append_only();',
    textOf('directory_changed'),
    textOf('lease_grant'),
  ])
  // The trial leaves everything as it was.
  expect(await functionChanges(database.sql)).toEqual([])
})

test('a new argument or result is a new function', async () => {
  const files = functionFiles().map(({ name, text }) =>
    name === 'receipts_insert'
      ? { name, text: text.replace('RETURNS void', 'RETURNS SETOF receipts') }
      : { name, text },
  )
  expect((await functionChanges(database.sql, files))[0]).toBe('DROP FUNCTION receipts_insert(json);')
})
