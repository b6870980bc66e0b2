import assert from "node:assert/strict";
import { test } from "node:test";
import { SvgContext } from "./svg_context.ts";

test("a path is written with the pen that is set, and a text with its font and place", () => {
  const ctx = new SvgContext();
  ctx.strokeStyle = "#123456";
  ctx.lineWidth = 2;
  ctx.setLineDash([4, 2]);
  ctx.beginPath();
  ctx.moveTo(1, 2.006);
  ctx.lineTo(3, 4);
  ctx.stroke();
  ctx.font = "12px sans-serif";
  ctx.textAlign = "right";
  ctx.fillText("loss", 5, 6);
  const text = ctx.text(100, 50, 2);
  assert.match(text, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" width="100" height="50" viewBox="0 0 200 100">/);
  assert.match(text, /<path d="M1 2.01L3 4" fill="none" stroke="#123456" stroke-width="2"[^>]*stroke-dasharray="4 2"/);
  assert.match(text, /<text x="5" y="6" text-anchor="end" style="font:12px sans-serif"[^>]*>loss<\/text>/);
});

test("a clip ends with the state that it was set in", () => {
  const ctx = new SvgContext();
  ctx.save();
  ctx.rect(0, 0, 10, 10);
  ctx.clip();
  ctx.fillRect(1, 1, 2, 2);
  ctx.restore();
  ctx.fillRect(5, 5, 1, 1);
  const text = ctx.text(10, 10, 1);
  assert.match(text, /<clipPath id="c1">.*<g clip-path="url\(#c1\)"><path d="M1 1[^>]*><\/g><path d="M5 5/);
});

test("names are texts, whatever they hold", () => {
  const ctx = new SvgContext();
  ctx.fillText('<img src=x onerror="a&b">\u0000\ud800', 0, 0);
  const text = ctx.text(1, 1, 1);
  assert.match(text, />&#60;img src=x onerror=&#34;a&#38;b&#34;&#62;<\/text>/);
});
