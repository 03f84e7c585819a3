import { createHash } from 'node:crypto'
import { settled } from '../run/wait-until.ts'

/** A browser without pages: it keeps cookies by host and follows what it is told to follow. */
export class Jar {
  private readonly cookies = new Map<string, string>()
  /** Every `Set-Cookie` that came, as it came. */
  readonly seen: string[] = []
  /** What the page of this browser keeps of its sign-in, and what it tells the gateway of that. */
  readonly secret = crypto.randomUUID()
  readonly tab = createHash('sha256').update(this.secret).digest('base64url')

  async go(url: string, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { ...(init.headers as Record<string, string> | undefined), ...(cookie === '' ? {} : { cookie }) }
    const response = await settled(
      `an answer of ${new URL(url).pathname}`,
      fetch(url, { ...init, headers, redirect: 'manual' }),
    )
    for (const text of response.headers.getSetCookie()) {
      this.seen.push(text)
      const [pair = ''] = text.split(';')
      const cut = pair.indexOf('=')
      const [name, value] = [pair.slice(0, cut), pair.slice(cut + 1)]
      if (value === '') this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    return response
  }

  cookie(name: string): string | null {
    return this.cookies.get(name) ?? null
  }

  put(name: string, value: string): void {
    this.cookies.set(name, value)
  }
}

export const locationOf = (response: Response): string => response.headers.get('location') ?? ''

/** From the provider's first address to the one that leads back to the gateway, which is not gone to. */
export async function throughProvider(jar: Jar, first: string, login: string, back: string): Promise<string> {
  let at = first
  for (let steps = 0; steps < 8; steps++) {
    if (at.startsWith(back)) return at
    const answer = await jar.go(at)
    if (answer.status >= 300 && answer.status < 400) {
      at = new URL(locationOf(answer), at).href
      continue
    }
    const page = await answer.text()
    const [, action] = /<form[^>]* action="([^"]+)"/.exec(page) ?? []
    if (action === undefined) throw new Error(`the provider shows no form: ${answer.status}`)
    const sent = await jar.go(new URL(action, at).href, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ prompt: 'login', login, password: 'any' }).toString(),
    })
    at = new URL(locationOf(sent), at).href
  }
  throw new Error('the provider leads nowhere')
}
