import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitLimitMs } from '../support/run/limits.ts'

interface Vectors {
  readonly receipt: { readonly log_key: string; readonly witness_key: string; readonly file: Record<string, unknown> }
  readonly receipt_v2: { readonly file: Record<string, unknown> }
  readonly payouts: { readonly root: string; readonly payouts: readonly object[] }
}
const vectors = JSON.parse(readFileSync(join(import.meta.dir, '../../docs/vectors.json'), 'utf8')) as Vectors

const gateway = await fixture(startTestGateway())
const browser = await fixture(launchBrowser())

interface Opened {
  readonly page: Page
  /** What the page has asked for since it was loaded, and what went wrong. */
  readonly requests: string[]
  readonly faults: string[]
}

async function open(): Promise<Opened> {
  const page = await (await browser.newContext({ viewport: { width: 900, height: 800 } })).newPage()
  page.setDefaultTimeout(waitLimitMs)
  const [requests, faults]: [string[], string[]] = [[], []]
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()))
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(`${gateway.url}/verify`, { waitUntil: 'networkidle' })
  page.on('request', (request) => requests.push(request.url()))
  return { page, requests, faults }
}

/** The tests have one together: opening it takes half a second of processor time. */
let shared: Promise<Opened> | null = null

/** As it is opened by a browser that has seen no log, with nothing in its fields. */
async function opened(): Promise<Opened> {
  shared ??= open()
  const own = await shared
  await own.page.evaluate(() => {
    localStorage.clear()
    for (const field of document.querySelectorAll('input, textarea')) {
      const { defaultValue } = field as HTMLInputElement
      ;(field as HTMLInputElement).value = defaultValue
    }
    document.getElementById('verdicts')?.replaceChildren()
  })
  own.requests.length = 0
  own.faults.length = 0
  return own
}

/** As somebody drags a file into the page. */
async function drop(page: Page, content: unknown): Promise<void> {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  await page.evaluate((body) => {
    document.getElementById('verdicts')?.replaceChildren()
    const dataTransfer = new DataTransfer()
    dataTransfer.items.add(new File([body], 'proof.json'))
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
  }, text)
  await page.locator('#verdicts > *').first().waitFor()
}
const verdict = (page: Page) => page.locator('#verdicts').innerText()

describe.skipIf(!hasBrowser)('§31: /verify computes in the page, and nothing leaves it', () => {
  test('a receipt is not valid without the key, valid with it, and not valid with another number; no request is made', async () => {
    const { page, requests, faults } = await opened()
    const { file, log_key: logKey, witness_key: witnessKey } = vectors.receipt
    await drop(page, file)
    expect(await verdict(page)).toContain('NOT VALID')
    await page.getByLabel('Keys of the log').fill(logKey)
    await page.getByLabel('Keys of witnesses').fill(witnessKey)
    await page.getByLabel('How many witnesses').fill('1')
    await drop(page, file)
    expect(await verdict(page)).toMatch(/receipt 0x80feff\w+: valid/)
    expect(await verdict(page)).toContain('svc-witness/vectors')
    await drop(page, { ...file, receipt: { ...(file.receipt as object), completion_tokens: 8 } })
    expect(await verdict(page)).toContain('its facts have another hash')
    await drop(page, vectors.receipt_v2.file)
    // Another log of two entries under the name that this browser has seen: exactly what is to be exposed.
    expect(await verdict(page)).toContain('SPLIT VIEW')
    expect([requests, faults]).toEqual([[], []])
  })

  test('a receipt v2 with what was asked and answered, a payout, a bundle, and what is nothing', async () => {
    const { page, requests, faults } = await opened()
    await page.getByLabel('Keys of the log').fill(vectors.receipt.log_key)
    await drop(page, vectors.receipt_v2.file)
    expect(await verdict(page)).toMatch(/it is what the receipt commits to[\s\S]*it is what the receipt commits to/)
    const [first] = vectors.payouts.payouts
    const payout = { ...first, object: 'svc.payout_proof', entry_id: 'pay_1', merkle_root: vectors.payouts.root }
    await drop(page, payout)
    expect(await verdict(page)).toContain('NOT VALID')
    await page.getByLabel('Roots that the contract shows').fill(vectors.payouts.root)
    await drop(page, { object: 'svc.bundle', files: [vectors.receipt_v2.file, payout] })
    expect(await page.locator('#verdicts h2').allInnerTexts()).toEqual([
      expect.stringMatching(/^receipt .*: valid$/),
      'payout pay_1: valid',
    ])
    for (const nothing of ['no JSON', { object: 'another' }, '[1', '[]']) {
      await drop(page, nothing)
      expect(await verdict(page)).toContain('nothing that can be verified')
    }
    expect([requests, faults]).toEqual([[], []])
  })

  test('keys that are given later judge the file that came last, and an overtaken check shows nothing', async () => {
    const { page, faults } = await opened()
    const buffer = Buffer.from(JSON.stringify({ object: 'another' }))
    await page.getByLabel('Drop a file').setInputFiles({ name: 'chosen.json', mimeType: 'application/json', buffer })
    await page.locator('#verdicts > *').first().waitFor()
    await drop(page, vectors.receipt.file)
    expect(await verdict(page)).toContain('NOT VALID')
    await page.getByLabel('Keys of the log').fill(vectors.receipt.log_key)
    await page.getByLabel('Keys of the log').dispatchEvent('change')
    await page.getByRole('heading', { name: /^receipt 0x80feff\w+: valid$/ }).waitFor()
    // A large file that is still read when the next one comes.
    await page.evaluate(() => {
      const read = Blob.prototype.text
      const first = Promise.withResolvers<void>()
      Blob.prototype.text = async () => {
        Blob.prototype.text = read
        await first.promise
        return '{"object":"another"}'
      }
      document.addEventListener('finish-first', () => first.resolve())
    })
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File(['large'], 'large.json'))
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    })
    await drop(page, vectors.receipt.file)
    await page.evaluate(async () => {
      document.dispatchEvent(new Event('finish-first'))
      await new Promise((resolve) => requestAnimationFrame(resolve))
    })
    expect(await verdict(page)).toMatch(/receipt 0x80feff\w+: valid/)
    expect(faults).toEqual([])
  })

  test('a browser that keeps nothing says that a split view would go unseen', async () => {
    const { page } = await opened()
    await page.getByLabel('Keys of the log').fill(vectors.receipt.log_key)
    await drop(page, vectors.receipt.file)
    expect(await verdict(page)).not.toContain('keeps nothing')
    await page.evaluate(() => {
      const own = Storage.prototype.setItem
      document.addEventListener('room-again', () => {
        Storage.prototype.setItem = own
      })
      Storage.prototype.setItem = () => {
        throw new DOMException('full', 'QuotaExceededError')
      }
    })
    try {
      await drop(page, vectors.receipt.file)
      expect(await verdict(page)).toContain('This browser keeps nothing')
    } finally {
      await page.evaluate(() => document.dispatchEvent(new Event('room-again')))
    }
  })

  test('a hostile file runs no code, and the policy lets no script of the page send anything', async () => {
    const { page, requests } = await opened()
    const evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    await drop(page, { ...vectors.receipt.file, receipt_hash: evil })
    expect(await page.title()).toBe('Penstock: verify a proof')
    expect(await page.locator('#verdicts img, #verdicts script').count()).toBe(0)
    const sent = await page.evaluate(() =>
      fetch('/healthz').then(
        () => 'sent',
        () => 'kept',
      ),
    )
    expect(sent).toBe('kept')
    expect(requests).toEqual([])
  })

  test('nothing that axe knows is wrong with it, and the keyboard chooses a file', async () => {
    const { page } = await opened()
    const file = join(import.meta.dir, '../../docs/vectors.json')
    expect(existsSync(file)).toBe(true)
    await page.getByLabel('Drop a file').setInputFiles(file)
    await page.locator('#verdicts > *').first().waitFor()
    const axe = readFileSync(join(import.meta.dir, '../../node_modules/axe-core/axe.min.js'), 'utf8')
    await page.evaluate(axe)
    const { violations } = (await page.evaluate('axe.run()')) as { violations: { id: string }[] }
    expect(violations.map(({ id }) => id)).toEqual([])
  })
})

test('§31: the page has the policy of the other pages, and may connect to nobody', async () => {
  const [page, others] = await Promise.all(['/verify', '/console'].map((path) => fetch(gateway.url + path)))
  const policyOf = (response: Response | undefined) => response?.headers.get('content-security-policy') ?? ''
  expect(policyOf(page)).toContain("connect-src 'none'")
  const strict = (policy: string) => policy.split('; ').filter((rule) => !/^(?:connect|img)-src/.test(rule))
  expect(strict(policyOf(page))).toEqual(strict(policyOf(others)))
  const script = /src="(verify\/assets\/[^"]+)"/.exec((await page?.text()) ?? '')?.[1]
  const asset = await fetch(`${gateway.url}/${script}`)
  expect([asset.status, asset.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8'])
})
