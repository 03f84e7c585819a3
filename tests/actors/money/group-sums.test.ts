import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const database = await fixture(testDatabase())

type Numbers = (number | null)[]
type Texts = (string | null)[]

/** A row of `charge_groups`, as far as its constraint looks at it. */
interface Group {
  rows: number
  group_id: string
  first_seq: number
  last_seq: number
  charged_total: number
  shares_total: number
  fees_total: number
  hashes: string
  debit_seq: Numbers
  release_seq: Numbers
  reserve_seq: Numbers | null
  reserved_at_ms: Numbers
  charged_wei: Numbers
  share_wei: Numbers
  fee_wei: Numbers
  released_wei: Numbers
  balance_after_wei: Numbers
  reserved_after_wei: Numbers
  reservation_ids: Texts
  reserve_ids: Texts
  debit_ids: Texts
  release_ids: Texts
  payout_ids: Texts
  fee_ids: Texts
  node_ids: Texts
  kinds: Texts
  payees: Texts
}

interface Part {
  readonly share: number
  readonly fee: number
  readonly released: number
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** A sound group of these charges. */
function groupOf(parts: readonly Part[], reserved: number, leased: boolean): Group {
  const count = parts.length
  const ids = (prefix: string, is: (part: Part) => boolean = () => true): Texts =>
    parts.map((part, at) => (is(part) ? `${prefix}_${at}` : null))
  const charged = parts.map(({ share, fee }) => share + fee)
  const seqs = parts.map((_, at) => 3 * at)
  const released = parts.map((part) => part.released)
  const releaseSeq = parts.map((part, at) => (part.released > 0 ? 3 * at + 2 : null))
  const lowest = reserved + Math.max(...released)
  return {
    rows: count,
    group_id: 'debit_0',
    first_seq: leased ? 0 : 1,
    last_seq: Math.max(3 * count - 2, releaseSeq.at(-1) ?? 0),
    charged_total: sum(charged),
    shares_total: sum(parts.map(({ share }) => share)),
    fees_total: sum(parts.map(({ fee }) => fee)),
    hashes: `\\x${'ab'.repeat(32 * count)}`,
    debit_seq: seqs.map((seq) => seq + 1),
    release_seq: releaseSeq,
    reserve_seq: leased ? seqs : null,
    reserved_at_ms: seqs,
    charged_wei: charged,
    share_wei: parts.map(({ share }) => share),
    fee_wei: parts.map(({ fee }) => fee),
    released_wei: released,
    balance_after_wei: charged.map((_, at) => lowest + sum(charged.slice(at + 1))),
    reserved_after_wei: charged.map(() => reserved),
    reservation_ids: ids('req'),
    reserve_ids: ids('reserve'),
    debit_ids: ids('debit'),
    release_ids: ids('release', (part) => part.released > 0),
    payout_ids: ids('payout', ({ share }) => share > 0),
    fee_ids: ids('fee', ({ fee }) => fee > 0),
    node_ids: ids('node'),
    kinds: ids('kind'),
    payees: parts.map(() => null),
  }
}

const columnsOfRows = [
  ...['debit_seq', 'release_seq', 'reservation_ids', 'debit_ids', 'release_ids', 'payout_ids', 'fee_ids', 'node_ids'],
  ...['kinds', 'payees', 'charged_wei', 'share_wei', 'fee_wei', 'released_wei', 'balance_after_wei'],
  'reserved_after_wei',
] as (keyof Group)[]
const columnsOfReserves: (keyof Group)[] = ['reserve_seq', 'reserve_ids', 'reserved_at_ms']
const isFull = (values: Numbers | Texts) => values.every((value) => value !== null)

/** What the constraint promises, charge by charge. */
function isSound(g: Group): boolean {
  const long = (column: keyof Group) => (g[column] as Numbers | Texts).length === g.rows
  if (g.rows < 1 || g.hashes.length !== 2 + 64 * g.rows || !columnsOfRows.every(long)) return false
  if (g.reserve_seq !== null && !(columnsOfReserves.every(long) && isFull(g.reserve_seq) && isFull(g.reserve_ids)))
    return false
  const each = g.charged_wei.every((charged, at) => {
    const of = (values: Numbers) => values[at] ?? Number.NaN
    const [share, fee, released] = [of(g.share_wei), of(g.fee_wei), of(g.released_wei)]
    const [reserved, balance] = [of(g.reserved_after_wei), of(g.balance_after_wei)]
    const isThere = (values: Numbers | Texts) => values[at] !== null
    return (
      charged !== null &&
      charged > 0 &&
      share >= 0 &&
      fee >= 0 &&
      released >= 0 &&
      charged === share + fee &&
      reserved >= 0 &&
      reserved + released <= balance &&
      [g.release_seq, g.release_ids].every((ids) => isThere(ids) === released > 0) &&
      isThere(g.payout_ids) === share > 0 &&
      isThere(g.fee_ids) === fee > 0 &&
      [g.debit_ids, g.reservation_ids, g.node_ids, g.kinds].every(isThere)
    )
  })
  const total = (values: Numbers) => sum(values.map((value) => value ?? 0))
  const [last, first] = [g.rows - 1, g.reserve_seq?.[0] ?? g.debit_seq[0]]
  return (
    each &&
    total(g.charged_wei) === g.charged_total &&
    total(g.share_wei) === g.shares_total &&
    total(g.fee_wei) === g.fees_total &&
    g.group_id === g.debit_ids[0] &&
    g.first_seq === first &&
    g.last_seq === Math.max(g.debit_seq[last] ?? -1, g.release_seq[last] ?? -1)
  )
}

const part = fc.record({
  share: fc.constantFrom(0, 1, 5, 9),
  fee: fc.constantFrom(0, 1, 4),
  released: fc.constantFrom(0, 1, 7),
})
const usual = fc.record({ share: fc.integer({ min: 1, max: 9 }), fee: fc.constant(2), released: fc.constant(3) })
/** What becomes of a group: one element of a column, one total, or the length of a column. */
const change = fc.record({
  column: fc.constantFrom<keyof Group>(
    ...columnsOfRows,
    ...columnsOfReserves,
    ...(['charged_total', 'shares_total', 'fees_total', 'group_id', 'first_seq', 'last_seq', 'rows'] as const),
  ),
  at: fc.nat(5),
  to: fc.constantFrom(null, -1, 0, 1, 2, 30),
  cut: fc.boolean(),
})
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never
const groups = fc.record({
  parts: fc.oneof(
    fc.array(usual, { minLength: 1, maxLength: 6 }),
    fc.array(
      part.filter(({ share, fee }) => share + fee > 0),
      { minLength: 1, maxLength: 6 },
    ),
  ),
  reserved: fc.constantFrom(0, 11),
  leased: fc.boolean(),
  changes: fc.array(change, { maxLength: 2 }),
})

function changed(group: Group, changes: readonly Change[]): Group {
  const made: Record<string, unknown> = structuredClone({ ...group })
  for (const { column, at, to, cut } of changes) {
    const value = made[column]
    if (Array.isArray(value)) {
      const isText = column.endsWith('ids') || column === 'kinds' || column === 'payees'
      if (cut) value.pop()
      // The middle of this one is of no promise.
      else if (column !== 'debit_seq' || to !== null) value[at % group.rows] = isText && to !== null ? `id_${to}` : to
    } else if (typeof value === 'number') made[column] = value + (to ?? 0)
    else if (typeof value === 'string') made[column] = `${value}${to ?? ''}`
  }
  return made as unknown as Group
}

test('§13: the constraint of a group of charges refuses exactly what does not add up, whatever columns have zeros', async () => {
  const made = fc.sample(groups, 3_000).map(({ parts, reserved, leased, changes }) => {
    const group = groupOf(parts, reserved, leased)
    return changes.length === 0 ? group : changed(group, changes)
  })
  const rows = await database.sql<{ sound: boolean | null }[]>`
    select charge_group_adds_up(jsonb_populate_record(null::charge_groups, value)) as sound
    from jsonb_array_elements(${JSON.stringify(made)}::text::jsonb) with ordinality order by ordinality`
  const expected = made.map(isSound)
  const differing = made.filter((_, at) => expected[at] !== rows[at]?.sound)
  expect(differing.slice(0, 2)).toEqual([])
  // Both answers are common, of both kinds of groups.
  for (const isUsual of [true, false]) {
    const kind = made.flatMap((group, at) =>
      group.fee_wei.every((fee) => fee === 2) === isUsual ? [expected[at]] : [],
    )
    for (const sound of [true, false]) expect(kind.filter((one) => one === sound).length).toBeGreaterThan(300)
  }
})
