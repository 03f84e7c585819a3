import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { settings } from '../src/settings/table.ts'

test('every setting stands in one subject, and every subject in the table', () => {
  const root = join(import.meta.dir, '../src/settings')
  const named = [...new Bun.Glob('*.ts').scanSync({ cwd: root })].flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name = '']) => name),
  )
  expect(named.sort()).toEqual(Object.keys(settings).sort())
})
