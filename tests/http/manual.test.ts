import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { addressOf } from '../../src/manual/contents.ts'
import { manualPaths } from '../../src/manual/make.ts'
import { hasBrowser, launchBrowser, openPage } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const root = join(import.meta.dir, '..', '..')
const addresses = manualPaths().map(addressOf)

const gateway = await fixture(startTestGateway())

const pageAt = async (path: string) => {
  const response = await gateway.ask('GET', path)
  return { status: response.status, headers: response.headers, html: await response.text() }
}

test('every document of the checkout is a page, once', () => {
  const documents = [...new Bun.Glob('docs/**/*.md').scanSync({ cwd: root })]
  expect(manualPaths().filter((path) => path.startsWith('docs/'))).toHaveLength(documents.length)
  expect(new Set(manualPaths())).toEqual(
    new Set([...documents, 'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']),
  )
})

test('each page has one heading of the first level, and a title of its own that names the product', async () => {
  const titles: string[] = []
  for (const address of ['/docs', '/docs/api', '/docs/errors', ...addresses]) {
    const { html } = await pageAt(address)
    const title = /<title>([^<]*)<\/title>/.exec(html)?.[1] ?? ''
    expect([address, title]).toEqual([address, expect.stringMatching(/^(?:\S.* – )?Penstock$/)])
    // The page of the API makes its headings from the OpenAPI document.
    if (address !== '/docs/api') expect([address, html.match(/<h1[ >]/g)?.length]).toEqual([address, 1])
    titles.push(title)
  }
  expect(titles.filter((title, at) => titles.indexOf(title) !== at)).toEqual([])
})

test('every link and picture of every page leads to something that the gateway serves, and to a place in it', async () => {
  const pages = new Map<string, string>()
  for (const address of ['/docs', ...addresses]) {
    const { status, html } = await pageAt(address)
    expect([address, status]).toEqual([address, 200])
    pages.set(address, html)
  }
  const others = new Map<string, number>()
  let links = 0
  for (const [address, html] of pages) {
    for (const [, target = ''] of html.matchAll(/(?:href|src|data-index)="([^"]*)"/g)) {
      if (/^(?:https?|mailto):/.test(target)) continue
      links += 1
      const [path = '', anchor] = target.split('#')
      const at = path === '' ? address : path
      const page = pages.get(at)
      if (page === undefined && !others.has(at)) others.set(at, (await gateway.ask('GET', at)).status)
      expect([address, target, page === undefined ? others.get(at) : 200]).toEqual([address, target, 200])
      if (page !== undefined && anchor !== undefined) {
        expect([address, target, page.includes(` id="${anchor}"`)]).toEqual([address, target, true])
      }
    }
  }
  expect(links).toBeGreaterThan(1_000)
  // What the search finds is a place, too.
  const index = /data-index="([^"]*)"/.exec(pages.get('/docs') ?? '')?.[1] ?? ''
  const { documentIds } = (await (await gateway.ask('GET', index)).json()) as { documentIds: Record<string, string> }
  const found = Object.values(documentIds)
  expect(found.length).toBeGreaterThan(300)
  const nowhere = found.filter((place) => {
    const [path = '', anchor] = place.split('#')
    return pages.get(path)?.includes(anchor === undefined ? '<h1' : ` id="${anchor}"`) !== true
  })
  expect(nowhere).toEqual([])
  expect([...others.keys()].some((path) => path.endsWith('.png'))).toBe(true)
})

test('a page runs its own script alone and asks no other host; what is no document is not there', async () => {
  const { headers, html } = await pageAt('/docs/integrators')
  expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(headers.get('content-security-policy')).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
  expect(html).not.toMatch(/<(?:script|link|img)[^>]*(?:src|href)="https?:/)
  for (const path of [
    '/docs/index',
    '/docs/index.html',
    '/docs/integrators.md',
    '/docs/integrators.html',
    '/docs/assets/integrators.html',
    '/docs/images',
    '/docs/images/',
    '/docs/images/nothing.png',
    '/docs/images/constructor',
    '/docs/constructor',
    '/docs/vectors.json',
    '/docs/reference',
    '/docs/reference/',
  ]) {
    expect([path, (await gateway.ask('GET', path)).status]).toEqual([path, 404])
  }
  for (const path of [
    '/docs/../package.json',
    '/docs/images/../../package.json',
    '/docs/images/%2e%2e/integrators.md',
  ]) {
    const response = await fetch(`${gateway.url}${path}`)
    expect([path, response.status >= 400]).toEqual([path, true])
  }
})

test('markup in a document is text: no page has an element that the renderer did not make', async () => {
  const { html } = await pageAt('/docs/compatibility')
  expect(html).not.toContain('suites:begin')
  const { html: log } = await pageAt('/docs/project/changelog')
  expect(log.match(/<script/g)).toHaveLength(1)
})

describe.skipIf(!hasBrowser)('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser?.close())

  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
  ] as const)(
    'in %s, %i wide, the documents have no fault, fit, and the search leads to a section',
    async (colorScheme, width) => {
      const { page, faults, violations } = await openPage(browser, gateway.url, '/docs', {
        colorScheme,
        viewport: { width, height: 860 },
      })
      const fits = async (place: string) => {
        expect([place, await violations()]).toEqual([place, []])
        const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect([place, Number(wide) <= 0]).toEqual([place, true])
      }
      await fits('/docs')
      await page.getByRole('main').getByRole('link', { name: 'For integrators' }).click()
      await page.getByRole('heading', { level: 1, name: 'For integrators' }).waitFor()
      await fits('/docs/integrators')
      await page.keyboard.press('/')
      await page.keyboard.type('repeating a request')
      await page.getByRole('status').getByText('found.').waitFor()
      await fits('search')
      await page.keyboard.press('Enter')
      await page.waitForURL(`${gateway.url}/docs/integrators#repeating-a-request-safely`)
      await page.getByRole('searchbox').fill('zzzzzzzz')
      await page.getByText('Nothing found.').waitFor()
      expect(faults).toEqual([])
    },
  )
})
