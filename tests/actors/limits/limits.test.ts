import { afterEach, expect, test } from 'bun:test'
import type { Access } from '../../../src/actors/accounts/access.ts'
import { LeaseBook } from '../../../src/actors/limits/lease-book.ts'
import { type Admission, GatewayLimits, type LimitsOptions } from '../../../src/actors/limits/limits.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { Problem } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { mergePolicies } from '../../../src/machines/rules/model-policy.ts'
import type { GatewayPolicy } from '../../../src/protocol/wire/admin/policy.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lasts } from '../../support/run/lasts.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { stopwatch } from '../../support/run/stopwatch.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'
import { waitFor, waitUntil } from '../../support/run/wait-until.ts'

const log = createLog('silent', () => {})
const running: GatewayLimits[] = []
const opened: { close(): Promise<void> }[] = []

const database = await fixture(testDatabase({ connectionsMax: 6 }))

afterEach(async () => {
  for (const limits of running.splice(0)) await limits.stop()
  for (const one of opened.splice(0)) await one.close()
})

async function gateway(changes: Partial<LimitsOptions> = {}): Promise<GatewayLimits> {
  const { db, sql } = database
  const limits = new GatewayLimits({
    db,
    sql,
    log,
    publicPerMinute: 600,
    adminPerMinute: 600,
    random: () => 0.5,
    ...changes,
  })
  await limits.start()
  running.push(limits)
  return limits
}

function account(policy: GatewayPolicy, customerId: string = newId('cus')): Access {
  return {
    customerId,
    keyId: newId('key'),
    accountStatus: 'active',
    expiresAtMs: null,
    policy: mergePolicies(policy, { policy: null, nodeScope: null }),
  }
}

async function attempt(limits: GatewayLimits, access: Access, tokens = 1): Promise<Admission | Problem> {
  try {
    return await limits.admit(access, tokens)
  } catch (problem) {
    if (problem instanceof Problem) return problem
    throw problem
  }
}

async function admitted(limits: GatewayLimits, access: Access, tokens = 1): Promise<Admission> {
  const answer = await attempt(limits, access, tokens)
  if (answer instanceof Problem) throw answer
  return answer
}

async function refused(limits: GatewayLimits, access: Access, tokens = 1): Promise<Problem> {
  const answer = await attempt(limits, access, tokens)
  if (answer instanceof Problem) return answer
  throw new Error('admitted')
}

const isAdmitted = (answer: Admission | Problem): answer is Admission => !(answer instanceof Problem)

/** Spent of a day: what is taken from the pool less what leases still hold unspent. */
async function taken(access: Access, day: string): Promise<number> {
  const [row] = await database.sql<{ taken: string }[]>`
    select taken from quota_days where customer_id = ${access.customerId} and day = ${day}`
  return Number(row?.taken ?? -1)
}

/** The two numbers of a difference are rounded. */
const roundingMs = 5
/** For how long the database still holds the slots for the gateway that has most of them. */
async function leaseLeftMs(access: Access): Promise<number> {
  const [row] = await database.sql<{ ms: number }[]>`
    select extract(epoch from max(expires_at) - clock_timestamp())::float8 * 1000 as ms from slot_leases
    where customer_id = ${access.customerId}`
  return Number(row?.ms ?? 0)
}

test('§17: a request that is several calls holds one slot, and of the others what is here', async () => {
  const limits = await gateway()
  const access = account({ max_concurrency: 8 })
  const atOnce = async (calls: number) => limits.admit(access, 1, calls)
  await waitUntil('a slot more is here', async () => {
    const probe = await atOnce(2)
    probe.settle(0)
    return probe.slots === 2
  })
  const held = [await atOnce(2)]
  expect(held[0]?.slots).toBe(2)
  for (let slots = 2; slots < 8; slots++) held.push(await atOnce(1))
  expect((await refused(limits, access)).code).toBe('concurrency_limited')
  held[0]?.settle(0)
  for (let more = 0; more < 2; more++) held.push(await atOnce(1))
  expect((await refused(limits, access)).code).toBe('concurrency_limited')
  for (const one of held) one.settle(0)
})

test('§17: a request that is several calls counts as so many a minute', async () => {
  const limits = await gateway()
  const access = account({ rate_limit_rpm: 5 })
  const call = async (calls: number) => limits.admit(access, 1, calls)
  expect((await call(4)).slots).toBeUndefined()
  await expect(call(2)).rejects.toMatchObject({ code: 'rate_limited' })
  expect(isAdmitted(await attempt(limits, access))).toBe(true)
  expect((await refused(limits, access)).code).toBe('rate_limited')
})

test('§17: an account without limits is admitted without a wait, by one shared admission', async () => {
  const limits = await gateway()
  const first = limits.admit(account({}), 1_000)
  expect(first).not.toBeInstanceOf(Promise)
  expect(limits.admit(account({}), 5)).toBe(first)
})

test('§13: of a daily quota exactly all of it can be used on one gateway', async () => {
  const limits = await gateway()
  const access = account({ daily_token_quota: 1_000 })
  const answers = await Promise.all(Array.from({ length: 200 }, () => attempt(limits, access, 10)))
  const problems = answers.filter((answer) => answer instanceof Problem)
  expect(answers.filter(isAdmitted)).toHaveLength(100)
  expect(new Set(problems.map((problem) => problem.code))).toEqual(new Set(['daily_token_quota_exceeded']))
})

test('§13: two gateways at once never overshoot a quota, and leave nothing of it unused', async () => {
  const gateways = [await gateway(), await gateway()]
  const access = account({ daily_token_quota: 5_000 })
  let used = 0
  const client = async (index: number) => {
    const limits = gateways[index % 2]
    if (limits === undefined) throw new Error('no gateway')
    for (let request = 0; request < 4; request++) {
      const answer = await attempt(limits, access, 10)
      if (isAdmitted(answer)) used += 10
    }
  }
  await Promise.all(Array.from({ length: 200 }, (_, index) => client(index)))
  expect(used).toBeLessThanOrEqual(5_000)
  // Some were refused while the other gateway held a reserve; it is given back when it is asked for.
  await waitUntil('all of it is used', async () => {
    for (const limits of gateways) {
      while (isAdmitted(await attempt(limits, access, 10))) used += 10
    }
    return used >= 5_000
  })
  expect(used).toBe(5_000)
})

test('§13: what was reserved and not used can be used again, on this gateway and on another', async () => {
  const here = await gateway()
  const there = await gateway()
  const access = account({ daily_token_quota: 100 })
  const reserved = await admitted(here, access, 100)
  expect((await refused(there, access, 60)).code).toBe('daily_token_quota_exceeded')
  reserved.settle(40)
  reserved.settle(0)
  expect((await refused(here, access, 61)).code).toBe('daily_token_quota_exceeded')
  // The gateway that needs it asks for it.
  await waitUntil('the rest reaches the other gateway', async () => isAdmitted(await attempt(there, access, 60)))
  expect((await refused(here, access, 1)).code).toBe('daily_token_quota_exceeded')
})

test('§13: a request that used more than it reserved is counted in full', async () => {
  const limits = await gateway()
  const access = account({ daily_token_quota: 100 })
  ;(await admitted(limits, access, 10)).settle(95)
  expect((await refused(limits, access, 6)).code).toBe('daily_token_quota_exceeded')
  ;(await admitted(limits, access, 5)).settle(5)
})

test('§13: the quota begins anew at 00:00 UTC; a request from before settles against its own day', async () => {
  let now = Date.parse('2026-11-20T23:59:58.000Z')
  const limits = await gateway({ now: () => now })
  const access = account({ daily_token_quota: 100 })
  const before = await admitted(limits, access, 90)
  const refusal = await refused(limits, access, 20)
  expect(refusal.options.retryAfterSeconds).toBe(2)
  now += 3_000
  const after = await admitted(limits, access, 100)
  before.settle(30)
  // Its 60 tokens went back to yesterday.
  expect((await refused(limits, access, 1)).code).toBe('daily_token_quota_exceeded')
  after.settle(100)
  now += 10_000
  await waitUntil('both days are settled', async () => {
    return (await taken(access, '2026-11-20')) === 30 && (await taken(access, '2026-11-21')) === 100
  })
})

test('§17: what lies idle goes back within seconds, so that a small quota is not stranded', async () => {
  let now = Date.now()
  const limits = await gateway({ now: () => now })
  const access = account({ daily_token_quota: 100_000 })
  const day = new Date(now).toISOString().slice(0, 10)
  // Quick successions make the gateway lease a reserve.
  for (let request = 0; request < 20; request++) (await admitted(limits, access, 10)).settle(10)
  expect(await taken(access, day)).toBeGreaterThan(200)
  now += 3_000
  await waitUntil('only what was used is taken', async () => (await taken(access, day)) === 200)
})

test('§17: a gateway that crashed takes at most its reserve of the quota with it', async () => {
  const crashed = await gateway()
  const other = await gateway()
  const access = account({ daily_token_quota: 64_000 })
  for (let request = 0; request < 30; request++) (await admitted(crashed, access, 100)).settle(100)
  running.splice(running.indexOf(crashed), 1)
  opened.push({ close: () => crashed.stop() })
  // 3,000 were used; the largest reserve is a 64th of the quota. No gateway answers for the crashed one.
  const rest = 64_000 - 3_000 - 1_000
  await admitted(other, access, rest)
})

test('§17: a crash of the database does not give the quota back: its tables are logged, the counters are not', async () => {
  const rows = await database.sql<{ relname: string; relpersistence: string }[]>`
    select relname, relpersistence from pg_class
    where relname in ('quota_days', 'quota_leases', 'rate_buckets', 'rate_leases', 'slot_leases') order by relname`
  expect(rows.map((row) => row.relname + row.relpersistence)).toEqual([
    'quota_daysp',
    'quota_leasesp',
    'rate_bucketsu',
    'rate_leasesu',
    'slot_leasesu',
  ])
})

test('§17: rate_limit_rpm is a bucket that both gateways share, with Retry-After until the next token', async () => {
  const here = await gateway()
  const there = await gateway()
  const access = account({ rate_limit_rpm: 30 })
  const tookMs = stopwatch()
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, index) => attempt(index % 2 === 0 ? here : there, access)),
  )
  const passed = answers.filter(isAdmitted).length
  // One token every 2 s.
  expect(passed).toBeLessThanOrEqual(31 + Math.floor(tookMs() / 2_000))
  expect(passed).toBeGreaterThanOrEqual(29)
  const refusal = await waitFor('a refusal', async () => {
    const answer = await attempt(here, access)
    return isAdmitted(answer) ? null : answer
  })
  expect(refusal.code).toBe('rate_limited')
  expect(refusal.options.retryAfterSeconds).toBeGreaterThanOrEqual(1)
  expect(refusal.options.retryAfterSeconds).toBeLessThanOrEqual(3)
  expect(refusal.options.headers?.['ratelimit-policy']).toBe('"chat";q=30;w=60')
  expect(refusal.options.headers?.ratelimit).toMatch(/^"chat";r=0;t=[123]$/)
  await waitUntil('a token', async () => isAdmitted(await attempt(here, access)))
})

test('§17: exactly the whole bucket passes at once on one gateway', async () => {
  const limits = await gateway()
  const access = account({ rate_limit_rpm: 6 })
  const answers = await Promise.all(Array.from({ length: 50 }, () => attempt(limits, access)))
  expect(answers.filter(isAdmitted)).toHaveLength(6)
})

test('§17: an admitted request is told what is left', async () => {
  const limits = await gateway()
  const access = account({ rate_limit_rpm: 120, daily_token_quota: 1_000 })
  const admission = await admitted(limits, access, 100)
  expect(admission.headers?.['ratelimit-policy']).toBe('"chat";q=120;w=60, "chat-tokens";q=1000;w=86400')
  expect(admission.headers?.ratelimit).toMatch(/^"chat";r=119;t=1, "chat-tokens";r=900;t=\d+$/)
})

test('§13: max_concurrency holds over two gateways, and a slot that is free is free for both', async () => {
  const here = await gateway()
  const there = await gateway()
  const access = account({ max_concurrency: 5 })
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, index) => attempt(index % 2 === 0 ? here : there, access)),
  )
  const holders = answers.filter(isAdmitted)
  expect(holders).toHaveLength(5)
  const refusal = await refused(here, access)
  expect(refusal.code).toBe('concurrency_limited')
  expect(refusal.options.retryAfterSeconds).toBe(1)
  for (const holder of holders) holder.settle(0)
  await waitUntil('all slots reach one gateway', async () => {
    const again = await Promise.all(Array.from({ length: 5 }, () => attempt(there, access)))
    for (const answer of again.filter(isAdmitted)) answer.settle(0)
    return again.every(isAdmitted)
  })
})

test('§17: slots of a gateway that crashed are free again when its lease has ended, not before', async () => {
  const leaseTtlMs = 60_000
  let crashedNow = Date.now()
  const crashed = new GatewayLimits({
    ...database,
    log,
    publicPerMinute: 600,
    adminPerMinute: 600,
    leaseTtlMs,
    now: () => crashedNow,
  })
  const access = account({ max_concurrency: 2 })
  // Never started: nothing renews its lease, as after a crash.
  await admitted(crashed, access)
  await admitted(crashed, access)
  const other = await gateway({ leaseTtlMs })
  expect((await refused(other, access)).code).toBe('concurrency_limited')
  const leftMs = await leaseLeftMs(access)
  expect(leftMs).toBeGreaterThan(0)
  expect(leftMs).toBeLessThan(leaseTtlMs + roundingMs)
  // Its end comes, for the database as for the one that crashed.
  crashedNow += leaseTtlMs
  await database.sql`update slot_leases set expires_at = now() where customer_id = ${access.customerId}`
  await waitUntil('the slots', async () => isAdmitted(await attempt(other, access)))
  // And the one thought dead does not use them either.
  expect((await refused(crashed, account({ max_concurrency: 2 }, access.customerId))).code).toBe('concurrency_limited')
})

test('§17: long requests keep their slots: the lease is renewed', async () => {
  let now = Date.now()
  const leaseTtlMs = 120_000
  const here = await gateway({ leaseTtlMs, now: () => now })
  const there = await gateway({ leaseTtlMs })
  const access = account({ max_concurrency: 1 })
  const long = await admitted(here, access)
  for (let renewal = 0; renewal < 2; renewal++) {
    await database.sql`update slot_leases set expires_at = now() + interval '60 s'
      where customer_id = ${access.customerId}`
    now += leaseTtlMs / 3
    await waitUntil('a renewal', async () => (await leaseLeftMs(access)) > leaseTtlMs / 2)
    expect((await refused(there, access)).code).toBe('concurrency_limited')
  }
  long.settle(0)
})

test('§13: a refusal by one limit gives back what the others had given', async () => {
  const limits = await gateway()
  const access = account({ max_concurrency: 2, daily_token_quota: 100, rate_limit_rpm: 3 })
  expect((await refused(limits, access, 101)).code).toBe('daily_token_quota_exceeded')
  for (let request = 0; request < 3; request++) (await admitted(limits, access, 20)).settle(20)
  expect((await refused(limits, access, 20)).code).toBe('rate_limited')
  expect((await refused(limits, access, 41)).code).toBe('daily_token_quota_exceeded')
  const sameWithoutRate = account({ max_concurrency: 2, daily_token_quota: 100 }, access.customerId)
  await admitted(limits, sameWithoutRate, 20)
  await admitted(limits, sameWithoutRate, 20)
})

test('§13: what the rate refuses costs nothing of the quota, however often it is asked', async () => {
  const limits = await gateway()
  const access = account({ daily_token_quota: 10_000, rate_limit_rpm: 1 })
  ;(await admitted(limits, access, 10)).settle(10)
  for (let request = 0; request < 200; request++) {
    expect((await refused(limits, access, 100)).code).toBe('rate_limited')
  }
  await admitted(limits, account({ daily_token_quota: 10_000 }, access.customerId), 9_990)
})

test('§13: a lowered quota counts at once, a raised one too', async () => {
  const limits = await gateway()
  const high = account({ daily_token_quota: 10_000 })
  for (let request = 0; request < 10; request++) (await admitted(limits, high, 50)).settle(50)
  const low = account({ daily_token_quota: 510 }, high.customerId)
  expect((await refused(limits, low, 11)).code).toBe('daily_token_quota_exceeded')
  await admitted(limits, low, 10)
  expect((await refused(limits, low, 1)).code).toBe('daily_token_quota_exceeded')
  await admitted(limits, high, 1_000)
})

test('§17: public and admin requests have buckets of their own per address and token', async () => {
  const limits = await gateway({ publicPerMinute: 3, adminPerMinute: 2 })
  const headers = await limits.takePublic('a')
  expect(headers['ratelimit-policy']).toBe('"public";q=3;w=60')
  await limits.takePublic('a')
  await limits.takePublic('a')
  const refusal = await Promise.resolve(limits.takePublic('a')).catch((problem) => problem)
  expect(refusal).toBeInstanceOf(Problem)
  expect(refusal.code).toBe('rate_limited')
  expect(refusal.options.retryAfterSeconds).toBe(20)
  await limits.takePublic('b')
  await limits.takeAdmin('a')
  await limits.takeAdmin('a')
  expect(Promise.resolve(limits.takeAdmin('a'))).rejects.toHaveProperty('code', 'rate_limited')
})

test('§17: without the database a request is refused with 503 only when the local lease is spent', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  const limits = await gateway({ db: through.db, sql: through.sql })
  opened.push(through, way)
  const access = account({ daily_token_quota: 6_400 })
  let now = 0
  // Until a reserve is there.
  while (now < 20) now += (await admitted(limits, access, 10)) ? 1 : 0
  await way.sever()
  let local = 0
  let last: Admission | Problem
  do {
    last = await attempt(limits, access, 1)
    if (isAdmitted(last)) local++
  } while (isAdmitted(last))
  expect(local).toBeGreaterThan(0)
  expect(last.code).toBe('service_unavailable')
  // An address is let through: the limit protects the gateway, not the database.
  expect(await limits.takePublic('somebody')).toEqual({})
  await way.restore()
  await waitUntil('the quota is back', async () => isAdmitted(await attempt(limits, access, 100)))
  expect((await refused(limits, access, 6_400 - 200 - local - 100 + 1)).code).toBe('daily_token_quota_exceeded')
  await admitted(limits, access, 6_400 - 200 - local - 100)
})

test('§17: a stop gives back what nobody holds', async () => {
  const limits = new GatewayLimits({ ...database, log, publicPerMinute: 600, adminPerMinute: 600 })
  await limits.start()
  const access = account({ daily_token_quota: 100_000 })
  const day = new Date().toISOString().slice(0, 10)
  for (let request = 0; request < 20; request++) (await admitted(limits, access, 10)).settle(10)
  await limits.stop()
  expect(await taken(access, day)).toBe(200)
  const [row] =
    await database.sql`select count(*)::int as leases from quota_leases where customer_id = ${access.customerId}`
  expect(row?.leases).toBe(0)
})

test('§17: in a mix of admissions, settlements, refusals and cut connections nothing ever exceeds its limit', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 3 })
  const steady = await gateway()
  const shaky = await gateway({ db: through.db, sql: through.sql })
  opened.push(through, way)
  const quota = 15_000
  const access = account({ daily_token_quota: quota, max_concurrency: 9 })
  let atOnce = 0
  let most = 0
  let tokens = 0
  let mostTokens = 0
  let admissions = 0
  let unavailable = 0
  let exhausted = false
  let cutting = true
  const client = async (limits: GatewayLimits, seed: number) => {
    for (let turn = seed; cutting || !exhausted; turn++) {
      const reserved = 10 + ((turn * 7_919) % 90)
      const answer = await attempt(limits, access, reserved)
      if (!isAdmitted(answer)) {
        if (answer.code === 'service_unavailable') unavailable++
        if (answer.code === 'daily_token_quota_exceeded') exhausted = true
        await lasts(turn % 3)
        continue
      }
      admissions++
      most = Math.max(most, ++atOnce)
      tokens += reserved
      mostTokens = Math.max(mostTokens, tokens)
      await lasts(turn % 4)
      const used = turn % 3 === 0 ? reserved : turn % 5
      // Before it is settled: nobody can have taken it yet.
      tokens -= reserved - used
      atOnce--
      answer.settle(used)
    }
  }
  const cuts = async () => {
    for (let cut = 0; cut < 8; cut++) {
      const [admitted, refused] = [admissions + 20, unavailable]
      await waitUntil('more admissions', () => admissions >= admitted || exhausted)
      await way.sever()
      await waitUntil('somebody hears of the cut', () => unavailable > refused)
      await way.restore()
    }
    cutting = false
  }
  const clients = Array.from({ length: 30 }, (_, index) => client(index % 2 === 0 ? steady : shaky, index * 101))
  await Promise.all([...clients, cuts()])
  expect(admissions).toBeGreaterThan(200)
  expect(most).toBe(9)
  expect(mostTokens).toBeLessThanOrEqual(quota)
})

test.each([[Number.NaN], [-1], [Number.POSITIVE_INFINITY]])(
  '§13: %p tokens are no reservation: nothing is taken',
  async (tokens) => {
    const limits = await gateway()
    const access = account({ daily_token_quota: 10, max_concurrency: 1 })
    expect(() => limits.admit(access, tokens)).toThrow(RangeError)
    await admitted(limits, access, 10)
    expect(await refused(limits, access, 1)).toBeInstanceOf(Problem)
  },
)

test('§17: leases are looked at every second, and three times in a life that is shorter', async () => {
  const clock = new VirtualClock()
  for (const [ttlMs, expected] of [
    [30_000, [1_000, 2_000, 3_000]],
    [900, [300, 600, 900]],
  ] as const) {
    const beganMs = clock.now()
    const ticks: number[] = []
    const afterTick = () => ticks.push(clock.now() - beganMs)
    const book = new LeaseBook({ ...database, log, now: Date.now, ttlMs, afterTick, clock })
    await book.start()
    await clock.pass(expected[2])
    expect(ticks).toEqual([...expected])
    await book.stop()
    expect(clock.waits).toEqual([])
  }
})
