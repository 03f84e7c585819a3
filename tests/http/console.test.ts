import { expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())

test('the console is one page under a policy without exceptions; its files are named by what is in them', async () => {
  const page = await gateway.ask('GET', '/console')
  expect(page.status).toBe(200)
  expect(page.headers.get('content-type')).toStartWith('text/html')
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toMatch(/unsafe|https?:|data:|\*/)
  const html = await page.text()
  expect(html).not.toMatch(/%\w+%|https?:\/\/|<style|style=|<script(?![^>]* src=)|\son\w+=/)
  const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path)
  expect(files.filter((path) => /-[a-z0-9]{8}\.(js|css)$/.test(path))).toHaveLength(2)
  for (const path of files) {
    const file = await gateway.ask('GET', `/${path}`)
    expect([path, file.status, file.headers.get('x-content-type-options')]).toEqual([path, 200, 'nosniff'])
    expect(file.headers.get('cache-control')).toContain('public')
  }
  for (const path of ['index.html', 'main.tsx', 'constructor']) {
    expect([path, (await gateway.ask('GET', `/console/assets/${path}`)).status]).toEqual([path, 404])
  }
})

/** What a browser with compression loads, with everything a view needs. */
const loadedMax = 250_000

test('the page is small, holds no secret and names the brand once, in the page', async () => {
  const html = await (await gateway.ask('GET', '/console')).text()
  const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path)
  const texts = await Promise.all(files.map(async (path) => (await gateway.ask('GET', `/${path}`)).text()))
  const loaded = [html, ...texts].reduce((sum, text) => sum + gzipSync(text).byteLength, 0)
  expect(loaded).toBeLessThan(loadedMax)
  const code = texts[files.findIndex((path) => path.endsWith('.js'))] ?? ''
  expect(code.length).toBeGreaterThan(1_000)
  expect(html).toContain('data-brand="svc"')
  expect(code).not.toMatch(/x-svc-|svc_(?:admin|operator|viewer|gateway)_/)
})
