declare module 'solc' {
  const solc: {
    compile(input: string, callbacks: { readonly import: (path: string) => { readonly contents: string } }): string
    version(): string
  }
  export default solc
}
