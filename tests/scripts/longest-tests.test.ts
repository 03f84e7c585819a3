import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { files } from '../support/run/longest-tests.json'

test('the files that begin first are there', () => {
  const names = Object.keys(files)
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter((name) => !existsSync(join(import.meta.dir, '../..', name)))).toEqual([])
})
