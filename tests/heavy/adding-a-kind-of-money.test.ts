import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dir, '../..')
const table = 'src/protocol/money/kinds.ts'
const original = readFileSync(join(root, table), 'utf8')
const head = '} as const satisfies Readonly<Record<string, Kind>>'

/** As CONTRIBUTING.md counts them. */
const row = `  gift: {
    noun: 'gift',
    about: 'An operator welcomes a customer',
    debits: ['outside'],
    credits: ['customer'],
    refersTo: [],
    sum: { name: 'gifts', figure: 'Gifts' },
    log: { entry: 'gift', says: ['reason'], mayLack: true },
    action: 'customer.credit.create',
    rules: [],
  },
`
const added = () => original.replace(head, row + head)

const copy = mkdtempSync(join(tmpdir(), 'penstock-walk-'))
beforeAll(() => {
  const parts = [
    'src',
    'tests/support',
    'scripts',
    'bench',
    'docs',
    'ops',
    'contracts',
    'package.json',
    'drizzle.config.ts',
  ]
  for (const name of parts) cpSync(join(root, name), join(copy, name), { recursive: true })
  const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as {
    compilerOptions: object
  }
  writeFileSync(join(copy, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['src', 'scripts'] }))
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

async function run(...args: readonly string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, ...args], { cwd: copy, stdout: 'pipe', stderr: 'inherit' })
  return new Response(child.stdout).text()
}

/** What the compiler says of the copy with this table; empty: nothing. */
async function complaints(text: string): Promise<readonly string[]> {
  writeFileSync(join(copy, table), text)
  // What the compiler has found once, it need not find again for the next table.
  const kept = ['--incremental', '--tsBuildInfoFile', 'tsc.json']
  const told = await run('node_modules/typescript/bin/tsc', '--noEmit', ...kept, '-p', '.')
  return told.split('\n').filter((line) => line.includes('error TS'))
}

/** Of a table without `admin_debit`, and with a row that lacks its second side and has a rule without a statement. The compiler runs once. */
let complained: Promise<readonly string[]> | null = null
const complainedOfBroken = () => {
  const without = original.replace(/^ {2}admin_debit: \{\n(?: {4}.*\n)+ {2}\},\n/m, '')
  expect(without).not.toContain('admin_debit:')
  const odd = row.replace(/ {4}credits: .*\n/, '').replace('rules: []', "rules: ['every gift is wrapped']")
  complained ??= complaints(without.replace(head, odd + head))
  return complained
}

test('§13: `admin_debit` without its row does not compile', async () => {
  const told = await complainedOfBroken()
  expect(told.filter((line) => line.startsWith('src/actors/money/billing.ts'))).not.toEqual([])
  expect(told.join('\n')).toContain('"admin_debit"')
})

test('§13: a row without its second side, and one whose rule has no statement, do not compile', async () => {
  const files = new Set((await complainedOfBroken()).map((line) => line.split('(')[0]))
  expect(files).toContain(table)
  expect(files).toContain('src/db/queries/log/proof.ts')
})

test('§13, §31: one row and the migration that is generated of it are wire, proof, log, check, command, console, vectors and documents', async () => {
  expect(await complaints(added())).toEqual([])
  const migrations = () => readdirSync(join(copy, 'src/db/migrations')).filter((name) => name.endsWith('.sql'))
  const before = migrations()
  await run('node_modules/drizzle-kit/bin.cjs', 'generate', '--name', 'gifts')
  const made = migrations().filter((name) => !before.includes(name))
  expect(made).toHaveLength(1)
  expect(readFileSync(join(copy, 'src/db/migrations', made[0] ?? ''), 'utf8')).toContain("'gift'")

  const seen = JSON.parse(await run('tests/support/walks/added-kind.ts')) as Readonly<Record<string, unknown>>
  expect(seen.withoutEvent).toEqual(['every gift has its approval event'])
  expect(seen.sound).toEqual([])
  expect(seen.tampered).toContain('every gift is as the log holds it')
  expect(seen.proof).toMatchObject({ balanced: true, gifts_wei: '5', credits_wei: '5', balances_wei: '10' })
  expect(seen.usage).toMatchObject({ entries: [{ kind: 'admin_credit' }, { kind: 'gift', balance_after_wei: '5' }] })
  expect(seen.logged).toEqual([{ kind: 'gift', subject: 'led_gift' }])
  expect(seen.command).toMatch(/Books +balance\n[\s\S]*Gifts +5 wei\n/)
  expect(seen.console).toEqual(['Credits', 'Gifts'])
  expect(seen.enumerated).toBe(true)
  expect(seen.documents).toEqual(['| `gift` | An operator welcomes a customer | outside | customer |  | `gift` |'])
  const vectors = JSON.parse(String(seen.vectors)) as { entries: object; ledger_facts: Record<string, object> }
  expect(Object.keys(vectors.entries)).toContain('gift')
  expect(vectors.ledger_facts.gift).toMatchObject({ v: 'svc-gift-v1', reason: 'paid' })
  const python = (...args: string[]) =>
    Bun.spawnSync(['python3', ...args], { cwd: copy, stdout: 'pipe', stderr: 'pipe' })
  // PyPI is not everywhere; where the package is, the other verifier knows the kind as well.
  if (Bun.which('python3') !== null && python('-c', 'import cryptography').exitCode === 0) {
    writeFileSync(join(copy, 'vectors.json'), String(seen.vectors))
    expect(python('docs/verify/verify.py', 'vectors', 'vectors.json').stdout.toString()).toEndWith('valid\n')
  }
})

test('CONTRIBUTING.md counts the lines of a kind of money as they are', () => {
  const rows = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8').split('\n')
  const [line = ''] = rows.filter((one) => one.startsWith('| A kind of money'))
  expect(line.split(' | ').slice(1, 3)).toEqual([
    String(row.trimEnd().split('\n').length),
    '1: its row in `kinds.ts`, and the migration that is generated of it',
  ])
})
