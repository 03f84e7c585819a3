import { describe, expect, test } from 'bun:test'
import { sessionOf } from '../../src/db/client.ts'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import type { CustomerList } from '../../src/protocol/wire/admin/accounts.ts'
import type { AdminRequestList } from '../../src/protocol/wire/admin/requests.ts'
import { dayMs, hourMs } from '../../src/time.ts'
import { type ConsolePage, hasBrowser, launchBrowser } from '../support/console/console.ts'
import { models, startConsolePool } from '../support/console/console-pool.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const pool = await fixture(startConsolePool())
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, pool.gateway))
for (const model of models) await pool.chat(model)
await pool.chat('no-such-model')

describe.skipIf(!hasBrowser)('§32: the requests, in the console', () => {
  /** Of the request with this id, once it is written, and its receipt beside it: who looks up its hash finds neither before. */
  const written = (id: string) =>
    waitFor('the request and its receipt', async () => {
      const { requests } = await pool.gateway.admin<AdminRequestList>('GET', '/v1/admin/requests?limit=10')
      const record = requests.find(({ request_id }) => request_id === id)
      if (record?.receipt_hash == null) return record
      const headers = { 'x-svc-admin-token': pool.gateway.tokens.viewer }
      const receipt = await fetch(`${pool.gateway.url}/v1/admin/receipts/${record.receipt_hash}`, { headers })
      return receipt.ok ? record : null
    })
  const rows = ({ page }: ConsolePage) => page.getByRole('group', { name: 'Requests, newest first' }).getByRole('row')

  test('tags stand beside each request for operators, lead to the others that have them, and are no viewer’s affair', async () => {
    const ask = (tags: string) =>
      pool.gateway.chat(
        pool.customer.key,
        { model: models[0], messages: [{ role: 'user', content: 'hello' }] },
        {
          headers: {
            authorization: `Bearer ${pool.customer.key}`,
            'content-type': 'application/json',
            'x-svc-tags': tags,
          },
        },
      )
    await ask('app/notes,team:search')
    await ask('app/wiki,team:search')
    await consoles.as('operator', async (console) => {
      await console.show('Requests')
      const { page } = console
      await page.getByRole('link', { name: 'app/notes', exact: true }).click()
      await waitUntil('only those of the tag', async () => (await rows(console).count()) === 2)
      expect(await rows(console).nth(1).textContent()).toContain('app/notes, team:search')
      await page.getByRole('link', { name: 'team:search', exact: true }).first().click()
      await waitUntil('those of the other one', async () => (await rows(console).count()) === 3)
      const folder = process.env.TAGS_PICTURE
      if (folder !== undefined) await page.screenshot({ path: `${folder}/tags.png` })
      await rows(console).nth(1).getByRole('link').first().click()
      await page.getByText('app/wiki', { exact: true }).waitFor()
      if (folder !== undefined) await page.screenshot({ path: `${folder}/tags-one.png` })
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
    await consoles.as('viewer', async (viewing) => {
      await viewing.show('Requests')
      await rows(viewing).nth(2).waitFor()
      expect(await viewing.page.getByText('team:search').count()).toBe(0)
      expect(await viewing.page.getByLabel('Tag', { exact: true }).count()).toBe(0)
    })
  })

  test('new ones appear by themselves, until somebody pauses', async () => {
    await consoles.as('viewer', async (console) => {
      await console.show('Requests')
      await rows(console).nth(5).waitFor()
      await console.page.getByTitle(await pool.chat(models[1])).waitFor()
      await console.page.getByRole('button', { name: 'Pause', exact: true }).click()
      await console.page.getByText('This list stands still.').waitFor()
      const unseen = await pool.chat(models[2])
      await console.page.getByRole('button', { name: 'Paused' }).click()
      await console.page.getByTitle(unseen).waitFor()
      expect(console.faults).toEqual([])
    })
  })

  test('a filter stands in the address, and an address is a filter', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Requests')
      await page.getByLabel('Node', { exact: true }).fill('rack-2')
      await page.getByRole('button', { name: 'Filter', exact: true }).click()
      await page.waitForURL(`**/console*#requests?node_id=${pool.nodeIds[1]}`)
      await waitUntil('only what the filter leaves', async () => {
        const [, ...texts] = await rows(console).allInnerTexts()
        return texts.length > 0 && texts.every((text) => text.includes('rack-2'))
      })
      await page.evaluate("location.hash = '#requests?status=404'")
      await rows(console).getByText('model_not_found').first().waitFor()
      expect(await page.getByLabel('Status', { exact: true }).inputValue()).toBe('404')
      expect(await rows(console).count()).toBe(2)
      const shown = () =>
        rows(console)
          .nth(1)
          .locator('td:visible')
          .evaluateAll((cells) => cells.map((cell) => cell.getAttribute('data-label')))
      expect(await shown()).toEqual(expect.arrayContaining(['Status', 'Node', 'First token', 'Took']))
      // On a phone a request that reached no node says nothing of one.
      await page.setViewportSize({ width: 390, height: 844 })
      expect(await shown()).toEqual(['Status', 'Customer', 'Tries', 'Took'])
      await page.setViewportSize({ width: 1280, height: 860 })
      await page.evaluate("location.hash = '#requests?model=never'")
      await page.getByText('No request', { exact: true }).waitFor()
    })
  })

  test('the failed requests of one customer in the last hour are three clicks away, and a filter by form keeps them', async () => {
    const { customers } = await pool.gateway.admin<CustomerList>('GET', '/v1/admin/customers')
    const [customer] = customers
    await pool.gateway.admin('PATCH', `/v1/admin/customers/${customer?.customer_id}`, { display_name: 'Ada' })
    await consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Requests')
      await page.getByRole('link', { name: 'Failed', exact: true }).click()
      await page.getByRole('button', { name: 'Last hour', exact: true }).click()
      await page.waitForURL('**/console*#requests?*outcome=failed*from=*')
      // The form of the address before goes with it, and so would what is typed into it.
      await page.getByRole('link', { name: 'Any time', exact: true }).waitFor()
      await page.getByLabel('Customer', { exact: true }).fill('Ada')
      await page.getByRole('button', { name: 'Filter', exact: true }).click()
      await page.waitForURL(`**/console*#requests?*customer_id=${customer?.customer_id}*`)
      expect(page.url()).toContain('outcome=failed')
      const others = page.locator('.requests tbody tr').filter({ hasNotText: 'model_not_found' })
      await others.first().waitFor({ state: 'detached' })
      // What has a name is called by it: in the list, in what is offered, in the address of neither.
      const name = 'Ada'
      await rows(console).nth(1).getByText(name, { exact: true }).waitFor()
      const [, ...listed] = await rows(console).allInnerTexts()
      expect(listed).toEqual([expect.stringContaining('model_not_found')])
      const offers = (id: string) =>
        page.locator(`#filter-${id}-offers option`).evaluateAll((all) => all.map((each) => each.getAttribute('value')))
      await waitUntil('the models on offer', async () => (await offers('model')).includes('qwen3-32b'))
      await waitUntil('the nodes on offer', async () => (await offers('node_id')).includes('rack-1'))
      await page.getByLabel('Key', { exact: true }).fill(`test of ${name}`)
      await page.getByLabel('Status', { exact: true }).fill('forbidden')
      await page.getByRole('button', { name: 'Filter', exact: true }).click()
      const status = page.getByLabel('Status', { exact: true })
      expect(await status.evaluate((field) => (field as HTMLInputElement).validationMessage)).toBe(
        'Type a status of three digits, such as 403.',
      )
      await status.fill('404')
      await page.getByRole('button', { name: 'Filter', exact: true }).click()
      await page.waitForURL(/#requests\?.*key_id=key_/)
      await page.waitForURL(/status=404/)
      await rows(console).nth(1).getByRole('link').first().click()
      const why = page.getByRole('region', { name: 'Why it failed: No such model' })
      await why.getByText('GET /v1/models', { exact: false }).waitFor()
      await page.getByText(`test of ${name}`, { exact: true }).waitFor()
      await page.getByRole('link', { name, exact: true }).click()
      await page.getByRole('link', { name: 'Failed in the last hour' }).click()
      await rows(console).nth(1).waitFor()
      await page.getByRole('link', { name: '5xx', exact: true }).click()
      await page.getByText('No request', { exact: true }).waitFor()
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
  })

  test('a request is three clicks from its story: what happened, why there, its receipt', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      const asked = await written(await pool.chat(models[0]))
      await console.show('Requests')
      await page.getByTitle(asked.request_id).click()
      await page.getByRole('heading', { name: 'What happened' }).waitFor()
      const happened = page.locator('.timeline .happening')
      // The names of the nodes are read by themselves.
      await happened.getByText('rack-1 was asked').waitFor()
      expect(await happened.allTextContents()).toEqual([
        'It came in',
        'rack-1 was asked',
        'The first token came',
        'It was done',
      ])
      await page
        .getByRole('group', { name: 'Choice 1' })
        .getByRole('row', { name: /^rack-1 chosen/ })
        .waitFor()
      await page.getByText('free work').waitFor()
      await page.getByRole('link', { name: 'Same model in Try it' }).click()
      await page.getByRole('heading', { name: 'Try it' }).waitFor()
      expect(console.faults).toEqual([])
    })
  })

  test('a page that is opened before the receipt is written shows it as soon as it is there', async () => {
    const { sql } = pool.gateway.database
    const holding = sessionOf(sql)
    try {
      // No receipt can be written now.
      await holding.unsafe('begin; lock table receipt_rows, receipt_groups in share row exclusive mode')
      const id = await pool.chat(models[0])
      await consoles.as('viewer', async (console) => {
        const { page } = console
        await page.evaluate(`location.hash = '#requests/${id}'`)
        const receipt = page.getByRole('region', { name: 'Receipt' })
        await receipt.getByText('Not written yet').waitFor()
        await holding.unsafe('rollback')
        await receipt.getByText('free work').waitFor()
        expect(await receipt.getByText('Not written yet').count()).toBe(0)
      })
    } finally {
      await holding.end()
    }
  })

  test('a request has a statechart, filled from its record; a picture fits and zooms; instances are filtered', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await pool.chat(models[1])
      const asked = await written(await pool.chat(models[2]))
      await page.evaluate(`location.hash = '#requests/${asked.request_id}'`)
      await page.getByRole('link', { name: 'Its statechart' }).click()
      await page.locator('[data-state="settled.served"].lit').waitFor()
      // The row alone lights the state; the way to it is read by itself.
      const visited = page.locator('.history-state')
      await visited.nth(3).waitFor()
      expect(await visited.allTextContents()).toEqual(['settled.served', 'streaming', 'trying', 'queued'])
      const picture = page.locator('.picture')
      const width = () => picture.locator('svg').evaluate((svg) => svg.getBoundingClientRect().width)
      await page.getByRole('button', { name: 'Fit' }).click()
      const fit = await width()
      expect(
        await picture.evaluate((box) => [box.scrollHeight - box.clientHeight, box.scrollWidth - box.clientWidth]),
      ).toEqual([0, 0])
      await page.getByRole('button', { name: 'Actual size' }).click()
      const actual = await width()
      await page.getByRole('button', { name: 'Larger' }).click()
      expect((await width()) / actual).toBeCloseTo(1.25, 1)
      expect(fit).toBeLessThan(await width())
      const listed = page.getByRole('group', { name: 'List of instances' }).getByRole('listitem')
      await page.getByLabel('State', { exact: true }).selectOption('settled.failed')
      await waitUntil('only what the filter leaves', async () => {
        const states = await listed.locator('.instance-state').allInnerTexts()
        return states.length === 1 && states[0] === 'settled.failed'
      })
      await page.getByLabel('State', { exact: true }).selectOption('settled')
      await page.getByLabel('Node, name or id').fill('studio')
      await waitUntil('only what the filter leaves', async () => {
        const names = await listed.locator('.instance-name').allInnerTexts()
        return names.length > 0 && names.every((name) => name === 'mistral-small')
      })
      await page.getByLabel('Age').selectOption('still for a day')
      await page.getByText('None fits.').waitFor()
      await (await pool.mixture().done).body?.cancel()
      const { mixtures } = await pool.gateway.admin<{ mixtures: { request_id: string }[] }>('GET', '/v1/admin/mixtures')
      await page.evaluate(`location.hash = '#statecharts/mixture/${mixtures[0]?.request_id}'`)
      await page.getByText('3 of 3 experts answered; at least 2 had to').waitFor()
      expect(await page.locator('.sub-calls li').first().innerText()).toMatch(/expert llama-3.3-70b ok weight 1,/)
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
  })

  test('§29: what the first token was expected to cost on each node, and what was in its cache', async () => {
    for (const at of [1, 2] as const) pool.nodes[at]?.setModels([models[at], 'shared'])
    await waitFor('both nodes', async () => {
      const { models: known } = await pool.gateway.admin<{ models: readonly { id: string; nodes_ready: number }[] }>(
        'GET',
        '/v1/admin/models',
      )
      return known.some(({ id, nodes_ready: ready }) => id === 'shared' && ready === 2)
    })
    const asked = await written(await pool.chat('shared'))
    await consoles.as('operator', async (console) => {
      const { page } = console
      await page.evaluate(`location.hash = '#requests/${asked.request_id}'`)
      const choice = page.getByRole('group', { name: 'Choice 1' })
      await choice.getByRole('row', { name: /chosen/ }).waitFor()
      const heads = await choice.getByRole('columnheader').allTextContents()
      expect(heads.slice(-8)).toEqual([
        'Expected in its cache',
        'Backlog',
        'Slot',
        'Load',
        'Wake-up',
        'Own prompt',
        'Doubted',
        'Expected in all',
      ])
      const cells = await choice
        .getByRole('row', { name: /chosen/ })
        .getByRole('cell')
        .allTextContents()
      expect(cells.slice(-8, -3)).toEqual(['0 %', '–', '–', '–', '–'])
      expect(cells.at(-1)).toMatch(/ms$/)
      await page.getByText('In the node’s cache').waitFor()
      expect(console.faults).toEqual([])
    })
  })

  test('any id opens what it is', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await console.show('Requests')
      const asked = await written(await pool.chat(models[0]))
      const open = async (id: string) => {
        await page.evaluate("location.hash = '#requests'")
        await page.getByLabel('Any id').fill(id)
        await page.getByRole('button', { name: 'Open', exact: true }).click()
      }
      await open(asked.request_id)
      await page.getByRole('heading', { name: 'What happened' }).waitFor()
      await open(asked.receipt_hash ?? '')
      await page.getByText(asked.receipt_hash ?? '').waitFor()
      await open(pool.nodeIds[0] ?? '')
      await page.getByRole('heading', { name: 'Statecharts' }).waitFor()
      await page.evaluate("location.hash = '#requests'")
      await open('no-such-id')
      await page.getByText('Nothing here has this id.').waitFor()
    })
  })

  test('what is wrong stands on the first page: how many requests succeed, and each cause with its requests', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Now')
      const { db, sql } = pool.gateway.database
      const yesterday = Date.now() - dayMs - hourMs / 2
      await keepRequestRecords(db, new Date(yesterday), new Date(), new Date(yesterday - dayMs))
      await insertRequests(
        sql,
        `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${yesterday / 1_000}) + i * interval '1 second', 'cus_1', null, 'chat', true,
            'm', null, 1, 0, null, 2, 100, 4000, 10, 720, null, case when i = 0 then 429 else 200 end,
            case when i = 0 then 'rate_limited' end, null, null, null
          from generate_series(0, 4) i`,
      )
      const figures = page.locator('.figures')
      // Of four requests or more one named a model that is not there.
      await figures.locator('.figure', { hasText: /Succeeded[1-9][0-9.]* %/ }).waitFor()
      await figures.locator('.figure', { hasText: 'Succeeded' }).getByText('yesterday: 80 %').waitFor()
      await figures.locator('.figure', { hasText: 'Tokens out' }).getByText('yesterday: 1 tok/s').waitFor()
      await figures.locator('.figure', { hasText: 'Turned away' }).getByText('yesterday: 1').waitFor()
      const cause = page.getByRole('listitem').filter({ hasText: 'model_not_found' })
      await cause.getByText('1 request of 1 customer').waitFor()
      expect(await cause.getByRole('link', { name: 'What it means' }).getAttribute('href')).toEndWith(
        '/docs/errors#model_not_found',
      )
      expect(await console.violations()).toEqual([])
      await cause.getByRole('link', { name: 'Show the requests' }).click()
      await page.waitForURL('**/console*#requests?code=model_not_found&status=404&from=*')
      await rows(console).nth(1).waitFor()
      expect(await rows(console).count()).toBe(2)
      expect(console.faults).toEqual([])
    })
  })
})
