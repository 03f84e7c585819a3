import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { waitLimitMs } from '../run/limits.ts'

const chromiumPath = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium'
export const hasBrowser = existsSync(chromiumPath)
/** Set to write the pictures of the documents anew. */
export const pictures = process.env.PENSTOCK_PICTURES === '1'
const pictureFolder = resolve(import.meta.dir, '../../..', 'docs', 'images')
const axe = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/** Chromium by its arguments: a process of tests starts it once, which takes about a second of processor time. */
const running = new Map<string, Promise<Browser>>()

function chromiumWith(hosts: string): Promise<Browser> {
  const known = running.get(hosts)
  if (known !== undefined) return known
  const starting = chromium.launch({
    executablePath: chromiumPath,
    timeout: waitLimitMs,
    args: ['--no-sandbox', `--host-resolver-rules=${hosts}`],
  })
  running.set(hosts, starting)
  const forget = () => void running.delete(hosts)
  starting.then((browser) => browser.on('disconnected', forget), forget)
  return starting
}

/**
 * A browser that finds no host but the gateway's, which has `names` as well: nothing may depend on another. Its `close` closes what
 * was opened by it. Contexts share nothing, so the Chromium behind it is that of the whole process, and ends with it. Where there is no
 * Chromium it opens nothing: what would open a page is skipped there by `hasBrowser`.
 */
export async function launchBrowser(names: readonly string[] = []): Promise<Browser> {
  if (!hasBrowser) return { close: async () => {} } satisfies Partial<Browser> as Browser
  const hosts = names.map((name) => `MAP ${name} 127.0.0.1, `).join('')
  const shared = await chromiumWith(`${hosts}MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`)
  const opened = new Set<BrowserContext>()
  const newContext: Browser['newContext'] = async (options) => {
    const context = await shared.newContext(options)
    opened.add(context)
    context.on('close', () => void opened.delete(context))
    return context
  }
  const close: Browser['close'] = async () => {
    await Promise.all([...opened].map((context) => context.close()))
  }
  // `newPage` opens its context by `newContext`.
  return Object.create(shared, { newContext: { value: newContext }, close: { value: close } }) as Browser
}

export interface ConsolePage extends LookedAtPage {
  /** With a token that is good; shows the pool then, and not first the view that stands first, which would be drawn only to be left. */
  signIn(token: string): Promise<void>
  show(view: string): Promise<void>
  /** What `show` has shown. */
  readonly shown: ReadonlySet<string>
  /** Into docs/images, when that was asked for. */
  picture(name: string): Promise<void>
}

export type AxeRules = 'all' | 'colours' | 'structure'
const axeOptions = {
  all: {},
  colours: { runOnly: ['color-contrast'] },
  structure: { rules: { 'color-contrast': { enabled: false } } },
} as const satisfies Record<AxeRules, object>

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[]
}

export interface LookedAtPage {
  readonly page: Page
  /** Requests to other places, errors in the console, policy violations: there must be none. */
  readonly faults: readonly string[]
  /** What axe finds wrong, as texts: by all of its rules, by the one about colours, or by all but that one. */
  violations(rules?: AxeRules): Promise<readonly string[]>
  close(): Promise<void>
}

/** Any page of the gateway. */
export async function openPage(
  browser: Browser,
  url: string,
  path: string,
  options: BrowserContextOptions = {},
): Promise<LookedAtPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(waitLimitMs)
  const faults: string[] = []
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) faults.push(request.url())
  })
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(`${url}${path}`)
  return {
    page,
    faults,
    violations: async (rules = 'all') => {
      // The page stays the same document, so half a megabyte is sent once.
      if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axe)
      const { violations } = (await page.evaluate(
        `axe.run(${JSON.stringify({ resultTypes: ['violations'], ...axeOptions[rules] })})`,
      )) as AxeResult
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`)
    },
    close: () => context.close(),
  }
}

export async function openConsole(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<ConsolePage> {
  const opened = await openPage(browser, url, '/console', options)
  const { page } = opened
  const shown = new Set<string>()
  return {
    ...opened,
    signIn: async (token) => {
      await page.evaluate("location.hash = '#pool'")
      await page.getByLabel('Role token').fill(token)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.getByRole('navigation', { name: 'Views' }).waitFor()
      await page.getByRole('heading', { level: 1, name: 'Pool' }).waitFor()
    },
    shown,
    show: async (view) => {
      shown.add(view)
      await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view, exact: true }).click()
      await page.getByRole('heading', { level: 1, name: view }).waitFor()
    },
    picture: async (name) => {
      if (!pictures) return
      mkdirSync(pictureFolder, { recursive: true })
      await page.screenshot({ path: join(pictureFolder, `${name}.png`) })
    },
  }
}
